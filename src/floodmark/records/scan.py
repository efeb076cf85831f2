"""Scans the records of a batch without keeping them.

Called by validation.py and by searches by time, which need little of each record: its position,
timestamp, and whether it has a key. Whatever the batch claims, memory is limited by its largest
record, and the scan pauses every STEP_BYTES.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from floodmark.records.batch import HEADER_BYTES, BatchHeader, Buffer, TimestampType
from floodmark.records.compression import unpack
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.limits import HEADERS_OF_A_RECORD, most_items, most_unpacked_bytes
from floodmark.records.record import LONGEST_VARINT_BYTES, long_varint

MOST_MS: Final = (1 << 63) - 1
LEAST_MS: Final = -(1 << 63)


class Noted(NamedTuple):
    """A record that the caller asked to see."""

    number: int
    offset_delta: int
    timestamp: int
    has_key: bool


class Scanned(NamedTuple):
    """The result of a scan."""

    largest_timestamp: int
    unpacked_bytes: int


def scan_records(
    batch: Buffer,
    header: BatchHeader,
    *,
    earliest_ms: int = LEAST_MS,
    latest_ms: int = MOST_MS,
    note_gaps: bool = False,
    note_keyless: bool = False,
) -> Generator[list[Noted], None, Scanned]:
    """Yields records with timestamps outside this range and, if requested, records whose offset
    does not follow the previous one and records without a key. An empty list is only a pause.

    Raises CorruptRecord if the records contradict the header, DecompressionTooLarge beyond the
    limits.
    """
    scan = _Scan(header, earliest_ms, latest_ms, note_gaps, note_keyless)
    unpacked_bytes = 0
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    for piece in unpack(header.compression, packed, most_unpacked_bytes(len(packed))):
        unpacked_bytes += len(piece)
        yield scan.feed(piece)
    yield scan.end()
    return Scanned(scan.largest_timestamp, unpacked_bytes)


class _Scan:
    """The state of a scan. Complete records have been scanned; `_held` is the rest."""

    def __init__(
        self,
        header: BatchHeader,
        earliest_ms: int,
        latest_ms: int,
        note_gaps: bool,
        note_keyless: bool,
    ) -> None:
        self._count = header.records_count
        self._items_left = most_items(header.size_bytes) - self._count
        if self._items_left < 0:
            raise DecompressionTooLarge(f"the batch claims {self._count} records")
        self._base_timestamp = header.base_timestamp
        self._append_time = (
            header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        )
        self._earliest_ms = earliest_ms
        self._latest_ms = latest_ms
        self._note_gaps = note_gaps
        self._note_keyless = note_keyless
        self._held = bytearray()
        self._needed_bytes = 0
        self._index = 0
        self.largest_timestamp = LEAST_MS

    def feed(self, piece: Buffer) -> list[Noted]:
        self._held += piece
        if len(self._held) < self._needed_bytes:
            return []
        return self._walk(len(self._held) - LONGEST_VARINT_BYTES)

    def end(self) -> list[Noted]:
        noted = self._walk(len(self._held))
        if self._index < self._count:
            raise CorruptRecord(f"{self._index} records of {self._count} are there")
        if self._held:
            raise CorruptRecord(f"{len(self._held)} bytes follow the last record of the batch")
        return noted

    def _walk(self, begin_before: int) -> list[Noted]:
        """Scans all complete records. One that starts later may be missing a part of its length."""
        try:
            return self._whole_records(begin_before)
        except IndexError as error:
            raise CorruptRecord(f"record {self._index} is broken") from error

    def _whole_records(self, begin_before: int) -> list[Noted]:
        data, index, count = self._held, self._index, self._count
        base_timestamp, append_time = self._base_timestamp, self._append_time
        earliest_ms, latest_ms, largest = self._earliest_ms, self._latest_ms, self.largest_timestamp
        note_gaps, note_keyless = self._note_gaps, self._note_keyless
        noted: list[Noted] = []
        size_bytes = len(data)
        self._needed_bytes = p = 0
        # One loop with inlined varints, because it runs once per record.
        while p < begin_before and index < count:
            start = p
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            end = p + ((n >> 1) ^ -(n & 1))
            if end > size_bytes:
                self._needed_bytes = end - start
                p = start
                break
            p += 1  # a record's attributes are unused
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            delta = (n >> 1) ^ -(n & 1)
            timestamp = base_timestamp + delta if append_time is None else append_time
            if timestamp > largest:  # noqa: PLR1730 - a call would take longer
                largest = timestamp
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            delta = (n >> 1) ^ -(n & 1)
            key = data[p]
            p += 1
            if key > 0x7F:
                key, p = long_varint(data, p, key)
            if not key & 1:
                p += key >> 1
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            if not n & 1:
                p += n >> 1
            n = data[p]
            p += 1
            if n:
                p = self._pass_headers(p, n)
            if p != end:
                raise CorruptRecord(f"a record of {end - start} bytes has {p - start}")
            if (
                not earliest_ms <= timestamp <= latest_ms
                or (note_gaps and delta != index)
                or (note_keyless and key & 1)
            ):
                noted.append(Noted(index, delta, timestamp, not key & 1))
            index += 1
        self._index, self.largest_timestamp = index, largest
        del data[:p]
        return noted

    def _pass_headers(self, p: int, n: int) -> int:
        data = self._held
        if n > 0x7F:
            n, p = long_varint(data, p, n)
        if n & 1:
            raise CorruptRecord("negative number of record headers")
        self._items_left -= n >> 1
        if self._items_left < 0 or n >> 1 > HEADERS_OF_A_RECORD:
            raise DecompressionTooLarge("the batch has too many records and record headers")
        for _ in range(n >> 1):
            size = data[p]
            p += 1
            if size > 0x7F:
                size, p = long_varint(data, p, size)
            if size & 1:
                raise CorruptRecord("a record header has no name")
            p += size >> 1
            size = data[p]
            p += 1
            if size > 0x7F:
                size, p = long_varint(data, p, size)
            if not size & 1:
                p += size >> 1
        return p
