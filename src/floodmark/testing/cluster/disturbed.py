"""Parts of a broker process that a test can disturb: the clock, the disk, the metadata store.

Used by `child.py`, inside the broker's process.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from floodmark.clock import SystemClock
from floodmark.metadata import session_keeper, shared
from floodmark.metadata.session_file import SessionFile
from floodmark.metadata.shared_table import SharedTable
from floodmark.metadata.store import StoreUnavailable
from floodmark.storage.files import Buffer, RealFile, RealFiles


class DisturbedClock(SystemClock):
    """Its wall clock can jump, as when an administrator sets it. Monotonic time does not."""

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms = 0

    def jump(self, by_ms: int) -> None:
        self._ahead_ms += by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class DisturbedFiles(RealFiles):
    """The real disk, until a test fills it."""

    def __init__(self) -> None:
        self._is_full = False

    def fill(self, is_full: bool) -> None:
        self._is_full = is_full

    def open(self, path: Path, *, create: bool = True) -> RealFile:
        if create and not path.exists():
            self.check(path)
        return DisturbedFile(self, path, create=create)

    def mkdir(self, path: Path) -> None:
        if not path.exists():
            self.check(path)
        super().mkdir(path)

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        self.check(path)
        super().write_file_atomic(path, data, sync=sync)

    def space(self, path: Path) -> tuple[int, int]:
        size, left = super().space(path)
        return size, 0 if self._is_full else left

    def check(self, path: Path) -> None:
        if self._is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class DisturbedFile(RealFile):
    __slots__ = ("_files",)

    def __init__(self, files: DisturbedFiles, path: Path, *, create: bool) -> None:
        super().__init__(path, create=create)
        self._files = files

    def append(self, data: Buffer) -> None:
        self._files.check(self.path)
        super().append(data)


class DisturbedStore:
    """The brokers' shared metadata store.

    When cut off, this broker cannot read or write it, and its session expires after the timeout,
    as with an unreachable ZooKeeper.
    """

    def __init__(self) -> None:
        self._is_cut = False

    def cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut

    def check(self) -> None:
        if self._is_cut:
            raise StoreUnavailable("/", "a test cut this broker off from the store")

    def install(self) -> None:
        """Replaces the store of this process. Call it before the broker creates one."""
        disturbance = self

        class DisturbedTable(SharedTable):
            @contextmanager
            def _reading(self, path: str) -> Iterator[None]:
                disturbance.check()
                with super()._reading(path):
                    yield

            @contextmanager
            def _transaction(self, path: str) -> Iterator[None]:
                disturbance.check()
                with super()._transaction(path):
                    yield

        class DisturbedSession(SessionFile):
            def renew(self, deadline_ms: float) -> None:
                disturbance.check()
                super().renew(deadline_ms)

        # mypy treats a class in a module as a type, which cannot be assigned to.
        setattr(shared, "SharedTable", DisturbedTable)  # noqa: B010
        setattr(session_keeper, "SharedTable", DisturbedTable)  # noqa: B010
        setattr(session_keeper, "SessionFile", DisturbedSession)  # noqa: B010
