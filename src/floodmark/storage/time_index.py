"""The sparse index from timestamps to offsets in a segment.

Kafka's format: per entry the largest timestamp so far (eight bytes) and the relative offset of its
batch (four bytes). Called by segment.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from struct import Struct
from typing import Final

from floodmark.records.batch import NO_TIMESTAMP
from floodmark.storage.files import Files
from floodmark.storage.index_file import FLUSH_BYTES, CorruptIndex, IndexFile

_ENTRY: Final = Struct(">qi")
ENTRY_BYTES: Final = 12


class TimeIndex:
    """Entries in ascending order of timestamp and offset."""

    __slots__ = ("_file", "_max_entries", "base_offset", "relative_offsets", "timestamps")

    def __init__(self, files: Files, path: Path, base_offset: int, max_bytes: int) -> None:
        self._file = IndexFile(files, path)
        # One slot stays free for the last entry, which is written when the segment ends.
        self._max_entries = max_bytes // ENTRY_BYTES - 1
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.relative_offsets = array("i")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def is_full(self) -> bool:
        return len(self.timestamps) >= self._max_entries

    def load(self) -> None:
        """Read the file; CorruptIndex when its entries do not rise."""
        data = self._file.load(ENTRY_BYTES)
        self.timestamps = array("q")
        self.relative_offsets = array("i")
        for timestamp, relative_offset in _ENTRY.iter_unpack(data):
            self.timestamps.append(timestamp)
            self.relative_offsets.append(relative_offset)
        rising = all(map(int.__lt__, self.timestamps, self.timestamps[1:])) and all(
            map(int.__le__, self.relative_offsets, self.relative_offsets[1:])
        )
        if self.timestamps and (not rising or self.relative_offsets[0] < 0):
            raise CorruptIndex(f"{self._file.path.name} does not rise")

    def last_entry(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) for an empty index."""
        if not self.timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps[-1], self.base_offset + self.relative_offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than all before."""
        if timestamp <= (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            return
        self.timestamps.append(timestamp)
        self.relative_offsets.append(offset - self.base_offset)
        if len(self.timestamps) * ENTRY_BYTES - self._file.written_bytes >= FLUSH_BYTES:
            self.flush(required=False)

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry whose timestamp is at or before this one, from which to
        scan."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        return self.base_offset + (self.relative_offsets[slot] if slot >= 0 else 0)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and above."""
        self._keep(bisect_left(self.relative_offsets, offset - self.base_offset))

    def reset(self) -> None:
        self._keep(0)

    def _keep(self, entries: int) -> None:
        del self.timestamps[entries:]
        del self.relative_offsets[entries:]
        if entries * ENTRY_BYTES < self._file.written_bytes or entries == 0:
            self._file.truncate(entries * ENTRY_BYTES)

    def flush(self, *, required: bool = True) -> None:
        """Write what is not in the file yet; a full disk matters only when a segment ends."""
        start = self._file.written_bytes // ENTRY_BYTES
        if start == len(self.timestamps):
            return
        pairs = zip(self.timestamps[start:], self.relative_offsets[start:], strict=True)
        try:
            self._file.append(b"".join(_ENTRY.pack(*pair) for pair in pairs))
        except OSError:
            if required:
                raise

    def create(self) -> None:
        self._file.truncate(0)

    def renamed(self, path: Path) -> None:
        """The file has another name now."""
        self._file.path = path

    def fsync(self) -> None:
        self._file.fsync()
