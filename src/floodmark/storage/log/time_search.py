"""Finds records by timestamp, in steps, because a batch may have to be decompressed.

Called by partition_log.py. The time index and the headers lead to the batch. Only there are records
examined, without keeping any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from floodmark.records.batch import BatchHeader
from floodmark.records.errors import DecompressionTooLarge
from floodmark.records.scan import LEAST_MS, scan_records
from floodmark.steps import Steps
from floodmark.storage.log.segment import Segment
from floodmark.vocabulary import NO_TIMESTAMP

_HEADERS_OF_A_STEP: Final = 64


class TimestampedOffset(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(
    segments: Iterable[Segment], timestamp: int, first_offset: int
) -> Steps[TimestampedOffset | None]:
    """The first record at or after first_offset with at least this timestamp."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            found = yield from _first_since(segment, timestamp, first_offset)
            if found is not None:
                return found
    return None


def find_largest_timestamp(
    segments: Iterable[Segment], first_offset: int
) -> Steps[TimestampedOffset | None]:
    """The first record with the largest timestamp, at or after first_offset."""
    largest: TimestampedOffset | None = None
    # The sort is stable: with equal timestamps, the earlier segment comes first.
    for segment in sorted(segments, key=lambda one: one.largest_timestamp, reverse=True):
        timestamp = segment.largest_timestamp
        if largest is not None and timestamp <= largest.timestamp:
            break
        found = yield from _first_since(segment, timestamp, first_offset)
        if found is None:
            # It belonged to a record that DeleteRecords has removed.
            timestamp = yield from _largest_since(segment, first_offset)
            if largest is None or timestamp > largest.timestamp:
                found = yield from _first_since(segment, timestamp, first_offset)
        largest = found or largest
    return largest


def _largest_since(segment: Segment, first_offset: int) -> Steps[int]:
    """Among the records that DeleteRecords has left at the end of a segment."""
    largest = NO_TIMESTAMP
    start = segment.position_of(first_offset)
    for number, (position, header) in enumerate(segment.headers(start, segment.size_bytes)):
        timestamp = header.max_timestamp
        if timestamp > largest and header.base_offset < first_offset:
            timestamp = yield from _largest_in(segment, position, header, first_offset)
        elif number % _HEADERS_OF_A_STEP == 0:
            yield None
        largest = max(largest, timestamp)
    return largest


def _largest_in(
    segment: Segment, position: int, header: BatchHeader, first_offset: int
) -> Steps[int]:
    largest = NO_TIMESTAMP
    batch = segment.file.pread(header.size_bytes, position)
    try:
        # No timestamp is allowed, so all are reported.
        for noted in scan_records(batch, header, latest_ms=LEAST_MS - 1):
            for record in noted:
                if header.base_offset + record.offset_delta >= first_offset:
                    largest = max(largest, record.timestamp)
            yield None
    except DecompressionTooLarge:
        return header.max_timestamp
    return largest


def _first_since(
    segment: Segment, timestamp: int, first_offset: int
) -> Steps[TimestampedOffset | None]:
    """Uses the time index, and examines records only in the batch that must have it."""
    segment.load_indexes()
    scan_from = max(segment.time_index.lookup(timestamp), first_offset)
    start = segment.offset_index.lookup(scan_from)
    for number, (position, header) in enumerate(segment.headers(start, segment.size_bytes)):
        if header.max_timestamp >= timestamp and header.last_offset >= first_offset:
            found = yield from _first_in(segment, position, header, timestamp, first_offset)
            if found is not None:
                return found
        elif number % _HEADERS_OF_A_STEP == 0:
            yield None
    return None


def _first_in(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, first_offset: int
) -> Steps[TimestampedOffset | None]:
    batch = segment.file.pread(header.size_bytes, position)
    try:
        for noted in scan_records(batch, header, latest_ms=timestamp - 1):
            for record in noted:
                offset = header.base_offset + record.offset_delta
                if offset >= first_offset:
                    return TimestampedOffset(
                        record.timestamp, offset, header.partition_leader_epoch
                    )
            yield None
    except DecompressionTooLarge:
        # Not examined any further. A reader who starts with the batch misses nothing.
        begin = max(header.base_offset, first_offset)
        return TimestampedOffset(header.max_timestamp, begin, header.partition_leader_epoch)
    return None
