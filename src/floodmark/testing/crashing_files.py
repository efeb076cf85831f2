"""A disk in memory whose process dies in the middle of what it does. For `testing.simulator`."""

from __future__ import annotations

from floodmark.testing.memory_files import MemoryFiles


class CrashNow(BaseException):
    """The process ends here. No handler of errors may stop it, hence not an Exception."""


class CrashingFiles(MemoryFiles):
    """`crash_after` so many changes of the disk the process dies, before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_after: int | None = None

    def process_ended(self) -> None:
        """The system takes back what a process held when it died."""
        self.crash_after = None
        self._locks.clear()

    def _do(self, name: str, *arguments: object) -> None:
        if self.crash_after is not None:
            if self.crash_after == 0:
                self.crash_after = None
                raise CrashNow
            self.crash_after -= 1
        super()._do(name, *arguments)
