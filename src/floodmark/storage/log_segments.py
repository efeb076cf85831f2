"""The segments of one log in their order, and which of them holds an offset.

Owned by partition_log.py; log_reader.py, truncation.py and compaction_swap.py work on it too. It
never touches the disk by itself, but for the questions that need a segment's headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from floodmark.records.batch import NO_TIMESTAMP, BatchHeader
from floodmark.records.record import decode_records
from floodmark.storage.leader_epochs import LeaderEpochs
from floodmark.storage.segment import Segment
from floodmark.storage.transaction_index import AbortedTransaction


class TimestampedOffset(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int
    leader_epoch: int


def introduce(segments: Sequence[Segment], leader_epochs: LeaderEpochs) -> None:
    """Tell neighbours what their batches are checked against."""
    for segment, following in zip_longest(segments, segments[1:]):
        if following is not None:
            segment.offset_limit = following.base_offset
        segment.leader_epochs = leader_epochs


class LogSegments:
    """Never empty but inside of a truncation; the last one is `active`, the one appended to."""

    __slots__ = ("_leader_epochs", "active", "all", "base_offsets", "removed_bytes")

    def __init__(self, segments: list[Segment], leader_epochs: LeaderEpochs) -> None:
        self._leader_epochs = leader_epochs
        self.all = segments
        # Beside the segments, because every read searches it.
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        # What retention and compaction took: with the size, all that was ever appended.
        self.removed_bytes = 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    def slot_of(self, offset: int) -> int:
        """Which segment holds this offset; the first for offsets before the log."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)

    def holding(self, offset: int) -> list[Segment]:
        """The segment that holds this offset, and all after it."""
        return self.all[self.slot_of(offset) :]

    def end_of(self, segment: Segment, log_end_offset: int) -> int:
        """Where a segment's offsets end: at the next one's base, or at the log's end."""
        slot = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[slot] if slot < len(self.base_offsets) else log_end_offset

    # -- changing

    def add(self, segment: Segment) -> None:
        introduce([*self.all[-1:], segment], self._leader_epochs)
        self.all.append(segment)
        self.base_offsets.append(segment.base_offset)
        self.active = segment

    def forget_after(self, keep: int) -> None:
        """All but the first `keep`."""
        del self.all[keep:], self.base_offsets[keep:]
        if self.all:
            self.active = self.all[-1]

    def forget_first(self, count: int) -> None:
        self.removed_bytes += sum(segment.size_bytes for segment in self.all[:count])
        del self.all[:count], self.base_offsets[:count]

    def replace(self, replaced: list[Segment], cleaned: Segment) -> bool:
        """One segment for several neighbours; False when they are no longer there."""
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
        """Every batch that holds an offset of the range: its segment, position and header."""
        for segment in self.holding(first_offset):
            if segment.base_offset >= end_offset:
                return
            start = segment.position_of(first_offset)
            for position, header in segment.headers(start, segment.size_bytes):
                if header.base_offset >= end_offset:
                    return
                yield segment, position, header

    def find_timestamp(self, timestamp: int, first_offset: int) -> TimestampedOffset | None:
        """The first record at or after first_offset whose timestamp is not below this one."""
        for segment in self.all:
            if segment.largest_timestamp >= timestamp:
                found = _first_since(segment, timestamp, first_offset)
                if found is not None:
                    return found
        return None

    def find_largest_timestamp(self, first_offset: int) -> TimestampedOffset | None:
        """Of the first record that has it, among those at or after first_offset."""
        largest: TimestampedOffset | None = None
        segments = self.holding(first_offset)
        # Of those with the same the earlier one stays in front.
        for segment in sorted(segments, key=lambda one: one.largest_timestamp, reverse=True):
            timestamp = segment.largest_timestamp
            if largest is not None and timestamp <= largest.timestamp:
                break
            found = _first_since(segment, timestamp, first_offset)
            if found is None:
                # It was that of a record which DeleteRecords has taken.
                timestamp = _largest_since(segment, first_offset)
                if largest is None or timestamp > largest.timestamp:
                    found = _first_since(segment, timestamp, first_offset)
            largest = found or largest
        return largest

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in self.holding(first_offset):
            if segment.transaction_index.collect(first_offset, end_offset, found):
                break
        return found


def _largest_since(segment: Segment, first_offset: int) -> int:
    """Of the records that DeleteRecords has left at the end of a segment."""
    largest = NO_TIMESTAMP
    for position, header in segment.headers(segment.position_of(first_offset), segment.size_bytes):
        timestamp = header.max_timestamp
        if timestamp > largest and header.base_offset < first_offset:
            records = decode_records(segment.file.pread(header.size_bytes, position))
            left = (record.timestamp for record in records if record.offset >= first_offset)
            timestamp = max(left, default=NO_TIMESTAMP)
        largest = max(largest, timestamp)
    return largest


def _first_since(segment: Segment, timestamp: int, first_offset: int) -> TimestampedOffset | None:
    """By the time index, and among records only in the batch that must have it."""
    segment.load_indexes()
    scan_from = max(segment.time_index.lookup(timestamp), first_offset)
    start = segment.offset_index.lookup(scan_from)
    for position, header in segment.headers(start, segment.size_bytes):
        if header.max_timestamp < timestamp or header.last_offset < first_offset:
            continue
        for record in decode_records(segment.file.pread(header.size_bytes, position)):
            if record.timestamp >= timestamp and record.offset >= first_offset:
                return TimestampedOffset(
                    record.timestamp, record.offset, header.partition_leader_epoch
                )
    return None
