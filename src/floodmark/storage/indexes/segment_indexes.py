"""The indexes of one segment: offset, time and aborted transactions. Called by segment.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from floodmark.storage.files import Files
from floodmark.storage.indexes.offset_index import OffsetIndex
from floodmark.storage.indexes.time_index import TimeIndex
from floodmark.storage.indexes.transaction_index import TransactionIndex

OFFSET_SUFFIX: Final = ".index"
TIME_SUFFIX: Final = ".timeindex"
TRANSACTION_SUFFIX: Final = ".txnindex"
PathOf: TypeAlias = Callable[[str], Path]


class SegmentIndexes:
    __slots__ = ("offset", "time", "transaction")

    def __init__(self, files: Files, path_of: PathOf, base_offset: int, max_bytes: int) -> None:
        """`path_of` returns the segment's file with a suffix."""
        self.offset = OffsetIndex(files, path_of(OFFSET_SUFFIX), base_offset, max_bytes)
        self.time = TimeIndex(files, path_of(TIME_SUFFIX), base_offset, max_bytes)
        self.transaction = TransactionIndex(files, path_of(TRANSACTION_SUFFIX), base_offset)

    @property
    def is_full(self) -> bool:
        """Whether one of them has no room for another entry."""
        return self.offset.is_full or self.time.is_full

    def renamed(self, path_of: PathOf) -> None:
        """The files have been renamed."""
        self.offset.renamed(path_of(OFFSET_SUFFIX))
        self.time.renamed(path_of(TIME_SUFFIX))
        self.transaction.renamed(path_of(TRANSACTION_SUFFIX))
