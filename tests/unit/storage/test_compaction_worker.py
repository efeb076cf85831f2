"""The cleaner's process and the end of its broker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.child_python import child_python
from floodmark.storage.compaction.compaction_worker import NICENESS
from kit.waiting import wait_for

WORKER = child_python("floodmark.storage.compaction.compaction_worker", "1e9")
# Stands for a broker: starts a worker, waits until it takes jobs, and tells its pid. A worker that
# does so has lowered its priority below ours, whatever that is.
PARENT = f"""
import os, subprocess, sys, time
lowered = str(min(os.nice(0) + {NICENESS}, 19))
worker = subprocess.Popen({WORKER!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
while open(f'/proc/{{worker.pid}}/stat').read().rsplit(')')[1].split()[16] != lowered:
    time.sleep(0.01)
print(worker.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends a child with its parent")
def test_a_worker_that_is_stopped_does_not_outlive_a_killed_broker() -> None:
    """The next broker would start another one, which writes files of the same names."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: state(worker) == "T", 10)
            parent.kill()
            wait_for(lambda: state(worker) in ("Z", ""), 10)
        finally:
            if state(worker):
                os.kill(worker, signal.SIGKILL)


def state(pid: int) -> str:
    """The letter of /proc, nothing when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
    except FileNotFoundError:
        return ""
