"""An in-memory disk whose process can crash mid-operation. For `testing.simulation`."""

from __future__ import annotations

from floodmark.testing.memory_files import MemoryFiles


class CrashNow(BaseException):
    """The process crashes here. Not an Exception, so that no error handler catches it."""


class CrashingFiles(MemoryFiles):
    """Crashes the process after `crash_after` changes to the disk, before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_after: int | None = None

    def process_ended(self) -> None:
        """Releases what the process held, as the operating system does."""
        self.crash_after = None
        self._locks.clear()

    def _do(self, name: str, *arguments: object) -> None:
        if self.crash_after is not None:
            if self.crash_after == 0:
                self.crash_after = None
                raise CrashNow
            self.crash_after -= 1
        super()._do(name, *arguments)
