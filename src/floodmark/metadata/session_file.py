"""Proves that a local process is alive: a file it holds locked, with a lease inside.

The kernel releases the lock when the process ends, so others know at once. A paused process keeps
its lock but does not renew its lease, so others know after a while. All processes of a machine
share monotonic time, which no clock change affects.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_DEADLINE = struct.Struct(">d")


class SessionFile:
    def __init__(self, path: Path, deadline_ms: float) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self.renew(deadline_ms)

    def renew(self, deadline_ms: float) -> None:
        """Not synced: after a machine crash nobody holds the lock anyway."""
        os.pwrite(self._fd, _DEADLINE.pack(deadline_ms), 0)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def is_alive(path: Path, now_ms: float) -> bool:
    """Whether the process that created this file is running, not merely existing."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        lease = os.pread(fd, _DEADLINE.size, 0)
        # Without a lease, it has only just started.
        return len(lease) < _DEADLINE.size or now_ms < _DEADLINE.unpack(lease)[0]
    else:
        return False
    finally:
        os.close(fd)
