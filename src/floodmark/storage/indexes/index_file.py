"""The common base of a segment's indexes: entries kept in memory, appended to the file in batches.

The file is open only while loading and appending, so a partition holds one descriptor instead of
three. A crash loses unwritten entries; recovery rebuilds them from the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from floodmark.storage.files import Files

# One page: a syscall per few megabytes of log instead of one per entry.
FLUSH_BYTES: Final = 4096


class CorruptIndex(Exception):
    """The index file does not match its segment, and is rebuilt from the log."""


class IndexFile:
    """An index's bytes on disk: how much is written, and how to add more."""

    __slots__ = ("files", "path", "written_bytes")

    def __init__(self, files: Files, path: Path) -> None:
        self.files = files
        self.path = path
        self.written_bytes = 0

    def load(self, entry_bytes: int) -> bytes:
        data = self.files.read_file(self.path) if self.files.exists(self.path) else None
        if data is None:
            raise CorruptIndex(f"{self.path.name} is missing")
        if len(data) % entry_bytes:
            raise CorruptIndex(
                f"{self.path.name} has {len(data)} bytes, not a multiple of {entry_bytes}"
            )
        self.written_bytes = len(data)
        return data

    def is_doubtful(self, entry_bytes: int) -> bool:
        """Whether the file is missing, empty or ends within an entry, without reading it."""
        if not self.files.exists(self.path):
            return True
        size_bytes = self.files.size(self.path)
        return size_bytes == 0 or size_bytes % entry_bytes != 0

    def append(self, data: bytes) -> None:
        file = self.files.open(self.path)
        try:
            # First remove what an earlier failed write left after the known end.
            if file.size() != self.written_bytes:
                file.truncate(self.written_bytes)
            file.append(data)
        finally:
            file.close()
        self.written_bytes += len(data)

    def truncate(self, size_bytes: int) -> None:
        file = self.files.open(self.path)
        try:
            file.truncate(size_bytes)
        finally:
            file.close()
        self.written_bytes = size_bytes

    def fsync(self) -> None:
        file = self.files.open(self.path)
        try:
            file.fsync()
        finally:
            file.close()
