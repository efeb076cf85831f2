"""The sparse index from timestamps to offsets in a segment.

Kafka's format: each entry holds the largest timestamp so far (eight bytes) and the relative offset
of its batch (four bytes). Called by segment.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path
from struct import Struct

from floodmark.storage.files import Files
from floodmark.storage.indexes.sparse_index import SparseIndex, rises
from floodmark.vocabulary import NO_TIMESTAMP


class TimeIndex(SparseIndex):
    """Entries in ascending order of timestamp and offset."""

    entry = Struct(">qi")

    __slots__ = ("timestamps",)

    def __init__(self, files: Files, path: Path, base_offset: int, max_bytes: int) -> None:
        self.timestamps, offsets = array("q"), array("i")
        columns = (self.timestamps, offsets)
        # One slot stays free for the final entry, written when the segment ends.
        max_entries = max_bytes // self.entry.size - 1
        super().__init__(files, path, base_offset, max_entries, columns, offsets)

    def load(self) -> None:
        """Reads the file. Raises CorruptIndex if its entries are not ascending."""
        offsets = self.relative_offsets
        del self.timestamps[:], offsets[:]
        for timestamp, offset in self.entry.iter_unpack(self._file.load(self.entry.size)):
            self.timestamps.append(timestamp)
            offsets.append(offset)
        rising = rises(self.timestamps) and all(map(int.__le__, offsets, offsets[1:]))
        if self.timestamps and (not rising or offsets[0] < 0):
            raise self._refuse()

    def last_entry(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) for an empty index."""
        if not self.timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps[-1], self.base_offset + self.relative_offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp is larger than all before."""
        if timestamp <= (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            return
        self.timestamps.append(timestamp)
        self.relative_offsets.append(offset - self.base_offset)
        self._flush_if_many()

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry at or before this timestamp, to start scanning from."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        return self.base_offset + (self.relative_offsets[slot] if slot >= 0 else 0)
