"""A segment's aborted transactions, which read_committed fetches return to consumers.

Kafka's format: each entry holds version, producer id, first offset, last offset and the last stable
offset at the abort. The file exists only if something was aborted. Called by segment.py.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from floodmark.storage.files import Files
from floodmark.storage.indexes.index_file import CorruptIndex, IndexFile

_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions in the order of their abort markers."""

    __slots__ = ("_file", "base_offset", "entries")

    def __init__(self, files: Files, path: Path, base_offset: int) -> None:
        self._file = IndexFile(files, path)
        self.base_offset = base_offset
        self.entries: list[AbortedTransaction] = []

    def load(self) -> None:
        """Reads the file, if any. Raises CorruptIndex if its entries are out of order."""
        self.entries = []
        if not self._file.files.exists(self._file.path):
            return
        last_offset = -1
        for version, *fields in _ENTRY.iter_unpack(self._file.load(ENTRY_BYTES)):
            entry = AbortedTransaction(*fields)
            # A marker follows what it ends and lies in this segment. Zeros satisfy neither.
            before = max(last_offset, entry.first_offset, self.base_offset - 1)
            if version != _VERSION or entry.last_offset <= before:
                raise CorruptIndex(f"{self._file.path.name} is out of order or has another version")
            last_offset = entry.last_offset
            self.entries.append(entry)

    def append(self, entry: AbortedTransaction) -> None:
        """Written immediately, because aborts are rare.

        On a full disk it is written later: the marker is in the log.
        """
        self.entries.append(entry)
        self.flush(required=False)

    def flush(self, *, required: bool = True) -> None:
        """Writes pending entries. A full disk matters only when a segment ends."""
        missing = self.entries[self._file.written_bytes // ENTRY_BYTES :]
        if not missing:
            return
        try:
            self._file.append(b"".join(_ENTRY.pack(_VERSION, *entry) for entry in missing))
        except OSError:
            if required:
                raise

    def collect(self, first_offset: int, end_offset: int, into: list[AbortedTransaction]) -> bool:
        """Adds those that overlap the range. True if no later segment can have another."""
        # Entries are in marker order, so skip those that ended before.
        start = bisect_left(self.entries, first_offset, key=lambda entry: entry.last_offset)
        for entry in islice(self.entries, start, None):
            if entry.first_offset < end_offset:
                into.append(entry)
            if entry.last_stable_offset >= end_offset:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drops aborts whose markers lie at or above this offset."""
        kept = sum(1 for entry in self.entries if entry.last_offset < offset)
        if kept < len(self.entries):
            del self.entries[kept:]
            if kept * ENTRY_BYTES < self._file.written_bytes:
                self._file.truncate(kept * ENTRY_BYTES)

    def reset(self) -> None:
        self.entries = []
        if self._file.files.exists(self._file.path):
            self._file.truncate(0)

    def renamed(self, path: Path) -> None:
        """The file has been renamed."""
        self._file.path = path

    def fsync(self) -> None:
        # Even if empty: a truncation may have emptied it since the last sync.
        if self._file.files.exists(self._file.path):
            self._file.fsync()
