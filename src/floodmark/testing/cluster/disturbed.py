"""What a test can take from a running broker process: the right time, disk space, its store.

Used by `child.py`, inside the process of the broker.
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
    """Its wall time jumps like that of a machine whose clock is set; monotonic time does not."""

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms = 0

    def jump(self, by_ms: int) -> None:
        self._ahead_ms += by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class DisturbedFiles(RealFiles):
    """The real disk, until it is filled: then nothing more fits."""

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
    """The metadata store that the brokers share. Cut off, this broker neither reads nor writes it,
    and its session ends after its timeout, as with a ZooKeeper that cannot be reached.
    """

    def __init__(self) -> None:
        self._is_cut = False

    def cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut

    def check(self) -> None:
        if self._is_cut:
            raise StoreUnavailable("/", "a test cut this broker off from the store")

    def install(self) -> None:
        """For all stores of this process, before the broker makes one."""
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

        # mypy takes a class in a module for a type, which cannot be assigned to.
        setattr(shared, "SharedTable", DisturbedTable)  # noqa: B010
        setattr(session_keeper, "SharedTable", DisturbedTable)  # noqa: B010
        setattr(session_keeper, "SessionFile", DisturbedSession)  # noqa: B010
