"""The process of a broker on this machine, found by the lock of its log folder.

Used by `floodmark broker stop`: Kafka's protocol has no request that ends a broker.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from floodmark.clock import SystemClock

LOCK = ".lock"
META = "meta.properties"
POLL_S = 0.05


class LocalBroker:
    """A running process that holds the lock of a folder."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self.pid = pid

    def terminate(self) -> None:
        """As systemd or Ctrl-C would: it hands its leaderships over and syncs its logs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended in time."""
        clock, pause = SystemClock(), threading.Event()
        deadline_ms = clock.monotonic_ms() + timeout_s * 1000
        while _lock_holder(self._folder) == self.pid:
            if clock.monotonic_ms() > deadline_ms:
                return False
            pause.wait(POLL_S)
        return True


def find_local_broker(
    folders: Iterable[str], cluster_id: str, broker_id: int
) -> LocalBroker | None:
    """None when its folders are not here: then it runs on another machine."""
    for name in folders:
        folder = Path(name)
        if _owner(folder) == (cluster_id, broker_id):
            pid = _lock_holder(folder)
            if pid is not None:
                return LocalBroker(folder, pid)
    return None


def _owner(folder: Path) -> tuple[str, int] | None:
    """Whose folder it is: another machine may have one of the same name."""
    try:
        lines = (folder / META).read_text().splitlines()
    except OSError:
        return None
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    number = values.get("node.id", values.get("broker.id", ""))
    return (values.get("cluster.id", ""), int(number)) if number.isdecimal() else None


def _lock_holder(folder: Path) -> int | None:
    """The process that has the lock, which it has noted in the file; None when it is free."""
    try:
        with (folder / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdecimal() else None
            return None
    except OSError:
        return None
