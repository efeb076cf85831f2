"""The ordered segments of one log, and the lookup by offset.

Owned by partition_log.py; log_reader.py, truncation.py and compaction_swap.py use it too. It does
not access the disk, except where a lookup needs a segment's headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from floodmark.records.batch import BatchHeader
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.segment import Segment


def introduce(segments: Sequence[Segment], leader_epochs: LeaderEpochs) -> None:
    """Tells segments what to check their batches against."""
    for segment, following in zip_longest(segments, segments[1:]):
        if following is not None:
            segment.offset_limit = following.base_offset
        segment.leader_epochs = leader_epochs


class LogSegments:
    """Never empty except during a truncation. The last one is `active`, which is appended to."""

    __slots__ = ("_leader_epochs", "active", "all", "base_offsets", "removed_bytes")

    def __init__(self, segments: list[Segment], leader_epochs: LeaderEpochs) -> None:
        self._leader_epochs = leader_epochs
        self.all = segments
        # A separate list, because every read searches it.
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        # Removed by retention and compaction: plus the size, everything ever appended.
        self.removed_bytes = 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    def slot_of(self, offset: int) -> int:
        """The index of the segment with this offset; the first for offsets before the log."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)

    def holding(self, offset: int) -> list[Segment]:
        """The segment with this offset, and all after it."""
        return self.all[self.slot_of(offset) :]

    def end_of(self, segment: Segment, log_end_offset: int) -> int:
        """Where a segment's offsets end: at the next base offset, or at the log end."""
        slot = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[slot] if slot < len(self.base_offsets) else log_end_offset

    # -- changing

    def add(self, segment: Segment) -> None:
        introduce([*self.all[-1:], segment], self._leader_epochs)
        self.all.append(segment)
        self.base_offsets.append(segment.base_offset)
        self.active = segment

    def forget_after(self, keep: int) -> None:
        """Drops all but the first `keep`."""
        del self.all[keep:], self.base_offsets[keep:]
        if self.all:
            self.active = self.all[-1]

    def forget_first(self, count: int) -> None:
        self.removed_bytes += sum(segment.size_bytes for segment in self.all[:count])
        del self.all[:count], self.base_offsets[:count]

    def replace(self, replaced: list[Segment], cleaned: Segment) -> bool:
        """Replaces adjacent segments by one. False if they are no longer there."""
        first = self.slot_of(replaced[0].base_offset)
        place = slice(first, first + len(replaced))
        if self.all[place] != replaced:
            return False
        cleaned.offset_limit = replaced[-1].offset_limit
        cleaned.leader_epochs = self._leader_epochs
        saved = sum(segment.size_bytes for segment in replaced) - cleaned.size_bytes
        self.removed_bytes += saved
        self.all[place] = [cleaned]
        self.base_offsets[place] = [cleaned.base_offset]
        return True

    # -- searching

    def batches(
        self, first_offset: int, end_offset: int
    ) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Every batch that overlaps the range: its segment, position and header."""
        for segment in self.holding(first_offset):
            if segment.base_offset >= end_offset:
                return
            start = segment.position_of(first_offset)
            for position, header in segment.headers(start, segment.size_bytes):
                if header.base_offset >= end_offset:
                    return
                yield segment, position, header

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in self.holding(first_offset):
            if segment.transaction_index.collect(first_offset, end_offset, found):
                break
        return found
