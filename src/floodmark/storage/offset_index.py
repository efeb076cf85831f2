"""The sparse index from offsets to positions in a segment's log file.

Kafka's format: per entry the offset relative to the segment's base and the position, four bytes
each. Called by segment.py.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from floodmark.storage.files import Files
from floodmark.storage.index_file import FLUSH_BYTES, CorruptIndex, IndexFile

ENTRY_BYTES: Final = 8
# Offsets are kept relative to the segment's base in four signed bytes.
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1


class OffsetIndex:
    """Entries in ascending order of offset and position."""

    __slots__ = ("_file", "_max_entries", "base_offset", "positions", "relative_offsets")

    def __init__(self, files: Files, path: Path, base_offset: int, max_bytes: int) -> None:
        self._file = IndexFile(files, path)
        self._max_entries = max_bytes // ENTRY_BYTES
        self.base_offset = base_offset
        self.relative_offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def is_full(self) -> bool:
        return len(self.positions) >= self._max_entries

    def load(self, log_size_bytes: int) -> None:
        """Read the file; CorruptIndex when it cannot belong to a log of this size."""
        entries = array("i", self._file.load(ENTRY_BYTES))
        if sys.byteorder == "little":
            entries.byteswap()
        self.relative_offsets = entries[0::2]
        self.positions = entries[1::2]
        if entries and (
            self.positions[-1] >= log_size_bytes
            # The first batch never has an entry: zeros are data that did not reach the disk.
            or self.positions[0] <= 0
            or self.relative_offsets[0] <= 0
            or not _rises(self.relative_offsets)
            or not _rises(self.positions)
        ):
            raise CorruptIndex(f"{self._file.path.name} does not rise or points past its log")

    def append(self, offset: int, position: int) -> None:
        self.relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)
        if len(self.positions) * ENTRY_BYTES - self._file.written_bytes >= FLUSH_BYTES:
            self.flush(required=False)

    def lookup(self, offset: int) -> int:
        """The position of a batch at or before this offset, from which to scan."""
        slot = bisect_right(self.relative_offsets, offset - self.base_offset) - 1
        return self.positions[slot] if slot >= 0 else 0

    def first_offset_at(self, position: int) -> int | None:
        """The offset of the first entry that lies at this position or after it."""
        slot = bisect_left(self.positions, position)
        if slot == len(self.positions):
            return None
        return self.base_offset + self.relative_offsets[slot]

    def entries_back_from(self, position: int) -> Iterator[tuple[int, int]]:
        """Positions and offsets of the entries up to this position, the last one first."""
        for slot in range(bisect_right(self.positions, position) - 1, -1, -1):
            yield self.positions[slot], self.base_offset + self.relative_offsets[slot]

    def entries_after(self, position: int) -> Iterator[tuple[int, int]]:
        for slot in range(bisect_right(self.positions, position), len(self.positions)):
            yield self.positions[slot], self.base_offset + self.relative_offsets[slot]

    def fits(self, position: int, end_position: int, last_offset: int) -> bool:
        """Whether the entry of this batch, if it has one, points to its beginning and promises no
        offset before its last. Kafka's may have the last of several batches that came together."""
        slot = bisect_left(self.positions, position)
        following = bisect_left(self.positions, end_position, slot)
        return following == slot or (
            following == slot + 1
            and self.positions[slot] == position
            and self.relative_offsets[slot] >= last_offset - self.base_offset
        )

    def last_position(self) -> int:
        return self.positions[-1] if self.positions else 0

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and above."""
        self._keep(bisect_left(self.relative_offsets, offset - self.base_offset))

    def reset(self) -> None:
        self._keep(0)

    def _keep(self, entries: int) -> None:
        del self.relative_offsets[entries:]
        del self.positions[entries:]
        if entries * ENTRY_BYTES < self._file.written_bytes or entries == 0:
            self._file.truncate(entries * ENTRY_BYTES)

    def flush(self, *, required: bool = True) -> None:
        """Write what is not in the file yet; a full disk matters only when a segment ends."""
        start = self._file.written_bytes // ENTRY_BYTES
        if start == len(self.positions):
            return
        entries = array("i")
        for pair in zip(self.relative_offsets[start:], self.positions[start:], strict=True):
            entries.extend(pair)
        if sys.byteorder == "little":
            entries.byteswap()
        try:
            self._file.append(entries.tobytes())
        except OSError:
            if required:
                raise

    def create(self) -> None:
        """Make the empty file: Kafka rebuilds a segment that has none."""
        self._file.truncate(0)

    def renamed(self, path: Path) -> None:
        """The file has another name now."""
        self._file.path = path

    def fsync(self) -> None:
        self._file.fsync()


def _rises(numbers: array[int]) -> bool:
    """Strictly, up to the first pair that does not; one pass at C speed."""
    return all(map(int.__lt__, numbers, numbers[1:]))
