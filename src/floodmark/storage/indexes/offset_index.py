"""The sparse index from offsets to positions in a segment's log file.

Kafka's format: each entry holds the offset relative to the segment's base and the position, four
bytes each. Called by segment.py.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from floodmark.storage.files import Files
from floodmark.storage.indexes.sparse_index import SparseIndex, rises

# Offsets are stored relative to the segment's base, in four signed bytes.
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class OffsetIndex(SparseIndex):
    """Entries in ascending order of offset and position."""

    entry = Struct(">ii")

    __slots__ = ("positions",)

    def __init__(self, files: Files, path: Path, base_offset: int, max_bytes: int) -> None:
        offsets, self.positions = array("i"), array("i")
        columns = (offsets, self.positions)
        max_entries = max_bytes // self.entry.size
        super().__init__(files, path, base_offset, max_entries, columns, offsets)

    def load(self, log_size_bytes: int) -> None:
        """Reads the file. Raises CorruptIndex if it cannot belong to a log of this size."""
        # Not entry by entry: a full index has a hundred thousand of them.
        entries = array("i", self._file.load(self.entry.size))
        if sys.byteorder == "little":
            entries.byteswap()
        self.relative_offsets[:] = entries[0::2]
        self.positions[:] = entries[1::2]
        if entries and (
            self.positions[-1] >= log_size_bytes
            # The first batch never has an entry, so zeros are data that did not reach the disk.
            or self.positions[0] <= 0
            or self.relative_offsets[0] <= 0
            or not rises(self.relative_offsets)
            or not rises(self.positions)
        ):
            raise self._refuse()

    def append(self, offset: int, position: int) -> None:
        self.relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)
        self._flush_if_many()

    def lookup(self, offset: int) -> int:
        """The position of a batch at or before this offset, to start scanning from."""
        slot = bisect_right(self.relative_offsets, offset - self.base_offset) - 1
        return self.positions[slot] if slot >= 0 else 0

    def first_offset_at(self, position: int) -> int | None:
        """The offset of the first entry at or after this position."""
        slot = bisect_left(self.positions, position)
        if slot == len(self.positions):
            return None
        return self.base_offset + self.relative_offsets[slot]

    def entries_back_from(self, position: int) -> Iterator[tuple[int, int]]:
        """Positions and offsets of the entries up to this position, last one first."""
        for slot in range(bisect_right(self.positions, position) - 1, -1, -1):
            yield self.positions[slot], self.base_offset + self.relative_offsets[slot]

    def entries_after(self, position: int) -> Iterator[tuple[int, int]]:
        for slot in range(bisect_right(self.positions, position), len(self.positions)):
            yield self.positions[slot], self.base_offset + self.relative_offsets[slot]

    def fits(self, position: int, end_position: int, last_offset: int) -> bool:
        """Whether this batch's entry, if any, points to its start and covers its last offset.

        Kafka's may name the last of several batches appended together.
        """
        slot = bisect_left(self.positions, position)
        following = bisect_left(self.positions, end_position, slot)
        return following == slot or (
            following == slot + 1
            and self.positions[slot] == position
            and self.relative_offsets[slot] >= last_offset - self.base_offset
        )

    def last_position(self) -> int:
        return self.positions[-1] if self.positions else 0
