"""The common base of a segment's offset and time index: two columns of rising numbers.

Entries are kept in memory and appended to the file in batches. Called by offset_index.py and
time_index.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import ClassVar

from floodmark.storage.files import Files
from floodmark.storage.indexes.index_file import FLUSH_BYTES, CorruptIndex, IndexFile


class SparseIndex:
    """Each entry has an offset relative to the segment's base, and its counterpart.

    `entry` defines the file format, with the columns in order.
    """

    entry: ClassVar[Struct]

    __slots__ = ("_columns", "_file", "_max_entries", "base_offset", "relative_offsets")

    def __init__(
        self,
        files: Files,
        path: Path,
        base_offset: int,
        max_entries: int,
        columns: tuple[array[int], array[int]],
        relative_offsets: array[int],
    ) -> None:
        """`relative_offsets` is one of the two columns."""
        self._file = IndexFile(files, path)
        self._max_entries = max_entries
        self.base_offset = base_offset
        self.relative_offsets = relative_offsets
        self._columns = columns

    def __len__(self) -> int:
        return len(self.relative_offsets)

    @property
    def is_full(self) -> bool:
        return len(self.relative_offsets) >= self._max_entries

    def _refuse(self) -> CorruptIndex:
        return CorruptIndex(f"{self._file.path.name} is not ascending or points past its log")

    def _flush_if_many(self) -> None:
        """One page: a syscall per few megabytes of log instead of one per entry."""
        if len(self) * self.entry.size - self._file.written_bytes >= FLUSH_BYTES:
            self.flush(required=False)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at and above this offset."""
        self._keep(bisect_left(self.relative_offsets, offset - self.base_offset))

    def reset(self) -> None:
        self._keep(0)

    def _keep(self, entries: int) -> None:
        first, second = self._columns
        del first[entries:], second[entries:]
        size_bytes = entries * self.entry.size
        if size_bytes < self._file.written_bytes or entries == 0:
            self._file.truncate(size_bytes)

    def flush(self, *, required: bool = True) -> None:
        """Writes pending entries. A full disk matters only when a segment ends."""
        start = self._file.written_bytes // self.entry.size
        if start == len(self):
            return
        try:
            self._file.append(b"".join(self._packed(start)))
        except OSError:
            if required:
                raise

    def _packed(self, start: int) -> Iterator[bytes]:
        first, second = self._columns
        return map(self.entry.pack, first[start:], second[start:])

    def is_doubtful(self) -> bool:
        return self._file.is_doubtful(self.entry.size)

    def renamed(self, path: Path) -> None:
        """The file has been renamed."""
        self._file.path = path

    def fsync(self) -> None:
        self._file.fsync()


def rises(numbers: array[int]) -> bool:
    """Strictly ascending. One pass at C speed, up to the first pair that is not."""
    return all(map(int.__lt__, numbers, numbers[1:]))
