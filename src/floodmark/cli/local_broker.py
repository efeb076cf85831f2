"""Finds a local broker's process through the lock on its log folder.

Used by `floodmark broker stop`, because Kafka's protocol has no shutdown request.
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
    """A running process that holds a folder's lock."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self.pid = pid

    def terminate(self) -> None:
        """Stops it cleanly, as systemd would: it hands over leadership and syncs its logs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Returns whether the process exited in time."""
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
    """Returns None if its folders are not here, so it runs on another machine."""
    for name in folders:
        folder = Path(name)
        if _owner(folder) == (cluster_id, broker_id):
            pid = _lock_holder(folder)
            if pid is not None:
                return LocalBroker(folder, pid)
    return None


def _owner(folder: Path) -> tuple[str, int] | None:
    """Reads which broker owns the folder: another machine may use the same path."""
    try:
        lines = (folder / META).read_text().splitlines()
    except OSError:
        return None
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    number = values.get("node.id", values.get("broker.id", ""))
    return (values.get("cluster.id", ""), int(number)) if number.isdecimal() else None


def _lock_holder(folder: Path) -> int | None:
    """The pid of the lock holder, read from the lock file. None if the lock is free."""
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
