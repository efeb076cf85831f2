"""Converts record batches to Arrow columns, without a Python object per record. PURE.

Called by `reading.py` for fetched data. Only the walk from record to record is a Python loop,
because each record's length determines where the next one starts (and where lengths repeat, not
even that). numpy then reads the fields of all records at once, and Arrow gathers keys and values
from the fetched bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floodmark.pipeline.datasource.header_columns import header_column
from floodmark.records.batch import HEADER_BYTES, BatchHeader, Buffer, TimestampType
from floodmark.records.compression import decompress
from floodmark.records.errors import CorruptRecord

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_MAX_VARINT_BYTES: Final = 10
_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

ROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
ROW_SCHEMA_WITH_HEADERS: Final = ROW_SCHEMA.append(pa.field("headers", _HEADERS_TYPE))


class Packed(NamedTuple):
    """One batch's decompressed records and its header."""

    data: Buffer
    header: BatchHeader


def unpack(buffer: Buffer, position: int, header: BatchHeader) -> Packed:
    """The records part of the batch at this position, decompressed."""
    packed = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    return Packed(decompress(header.compression, packed), header)


class RowBuilder:
    """Builds rows of one partition. Caches the columns that never change."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool = False) -> None:
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers
        self._topics = pa.array([], pa.string())
        self._partitions = pa.array([], pa.int32())

    def rows(self, batches: Sequence[Packed], start_offset: int, end_offset: int) -> pa.RecordBatch:
        """All records of these batches with an offset in [start, end), as one Arrow batch."""
        data = b"".join(bytes_of(batch.data) for batch in batches)
        buffer = np.frombuffer(data, np.uint8)
        counts = np.array([batch.header.records_count for batch in batches], np.int64)
        fields = _Fields(buffer, _record_positions(data, batches))
        offsets = _repeat([b.header.base_offset for b in batches], counts) + fields.offset_deltas
        if not bool((np.diff(offsets) > 0).all()):
            raise CorruptRecord(f"the offsets of {self._topic}-{self._partition} are not ascending")
        first, last = np.searchsorted(offsets, (start_offset, end_offset))
        columns = [
            fields.keys(data),
            fields.values(data),
            *self._constants(len(offsets)),
            pa.array(offsets),
            _timestamps(batches, counts, fields.timestamp_deltas),
            pa.array(_repeat([b.header.timestamp_type for b in batches], counts).astype(np.int32)),
        ]
        schema = ROW_SCHEMA
        if self._include_headers:
            schema = ROW_SCHEMA_WITH_HEADERS
            headers = header_column(data, fields.header_starts, fields.record_ends, _HEADERS_TYPE)
            columns.append(headers)
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return batch.slice(int(first), int(last - first))

    def _constants(self, count: int) -> tuple[pa.Array, pa.Array]:
        if len(self._topics) < count:
            self._topics = pa.repeat(pa.scalar(self._topic, pa.string()), count)
            self._partitions = pa.repeat(pa.scalar(self._partition, pa.int32()), count)
        return self._topics.slice(0, count), self._partitions.slice(0, count)


def bytes_of(data: Buffer) -> bytes | memoryview:
    return data if isinstance(data, bytes) else memoryview(data)


class _Fields:
    """The fields of all records, each read in one pass over every record."""

    def __init__(self, buffer: Bytes, positions: Ints) -> None:
        try:
            lengths, starts = _varints(buffer, positions)
            # One byte of attributes, which are unused so far, precedes the first field.
            self.timestamp_deltas, at = _varints(buffer, starts + 1)
            self.offset_deltas, at = _varints(buffer, at)
            self._key_sizes, self._key_starts = _varints(buffer, at)
            self._key_ends = self._key_starts + np.maximum(self._key_sizes, 0)
            self._value_sizes, self._value_starts = _varints(buffer, self._key_ends)
        except IndexError:
            raise CorruptRecord("a record ends after its batch") from None
        self.header_starts = self._value_starts + np.maximum(self._value_sizes, 0)
        self.record_ends = starts + lengths
        # Arrow does not check the bounds below, so all of them must be valid.
        inside = (self.header_starts >= self._value_starts) & (
            self.header_starts < self.record_ends
        )
        if not bool(inside.all()):
            raise CorruptRecord("a key or value is longer than its record")

    def keys(self, data: bytes) -> pa.Array:
        return _gather(data, self._key_starts, self._key_ends, self._key_sizes < 0)

    def values(self, data: bytes) -> pa.Array:
        return _gather(data, self._value_starts, self.header_starts, self._value_sizes < 0)


def _record_positions(data: bytes, batches: Sequence[Packed]) -> Ints:
    """The position of each record."""
    buffer = np.frombuffer(data, np.uint8)
    found: list[Ints] = []
    batch_start = 0
    for batch in batches:
        p, batch_end = batch_start, batch_start + len(batch.data)
        left = batch.header.records_count
        try:
            # The length grows with the width of the offset, so equal runs are consecutive.
            while (alike := _equal_records(buffer, data, p, batch_end, left)) is not None:
                found.append(alike[:-1])
                p = int(alike[-1])
                left -= len(alike) - 1
            if left:
                walked, p = _walk(data, p, left)
                found.append(np.array(walked, np.int64))
        except IndexError:
            raise _broken(batch) from None
        if p != batch_end:
            raise _broken(batch)
        batch_start = batch_end
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _walk(data: bytes, p: int, count: int) -> tuple[list[int], int]:
    """Positions of records of any length, and the end of the last: the one loop per record."""
    positions: list[int] = []
    add = positions.append
    for _ in range(count):
        add(p)
        # Lengths are never negative, so the zigzag's sign bit is shifted out.
        n = data[p]
        if n < 0x80:
            p += 1 + (n >> 1)
            continue
        byte = data[p + 1]
        if byte < 0x80:
            p += 2 + ((n & 0x7F | byte << 7) >> 1)
        else:
            n, p = _long_varint(data, p + 2, n & 0x7F | (byte & 0x7F) << 7, 14)
            p += n >> 1
    return positions, p


# Below this many records, looking ahead costs more than it may save.
_WORTH_A_LOOK: Final = 64


def _equal_records(buffer: Bytes, data: bytes, start: int, end: int, count: int) -> Ints | None:
    """Positions of the first records, as long as all have the length of the first one.

    Machines often write records of equal size, which need no loop. If every position at that
    distance holds the same length, each is where the previous one ends, so this is not a guess.
    """
    if count < _WORTH_A_LOOK:
        return None
    length, behind = _varint(data, start)
    stride = behind - start + length
    if length <= 0 or stride * 2 > end - start:
        return None
    places = np.arange(start, min(start + stride * count, end - (behind - start)), stride)
    same = buffer[places] == data[start]
    for index in range(1, behind - start):
        same &= buffer[places + index] == data[start + index]
    first_other = len(places) if same.all() else int(same.argmin())
    # The record after the last equal one starts there too, whatever its length.
    known = places[: first_other + 1]
    return known if len(known) > _WORTH_A_LOOK // 2 else None


def _varint(data: bytes, p: int) -> tuple[int, int]:
    n = data[p]
    if n < 0x80:
        return n >> 1, p + 1
    n, p = _long_varint(data, p + 1, n & 0x7F, 7)
    return n >> 1, p


def _broken(batch: Packed) -> CorruptRecord:
    return CorruptRecord(f"broken record in the batch at offset {batch.header.base_offset}")


def _long_varint(data: bytes, p: int, n: int, read_bits: int) -> tuple[int, int]:
    """The rest of a varint whose first bytes gave n; still zigzag-encoded."""
    for shift in range(read_bits, 7 * _MAX_VARINT_BYTES, 7):
        byte = data[p]
        p += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
    raise CorruptRecord("a varint is longer than ten bytes")


def _varints(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The signed numbers at these positions, and the positions after them."""
    first = buffer[at]
    behind = at + 1
    longer = np.flatnonzero(first > 0x7F)
    if not longer.size:
        # One byte: the sign bit and six more bits.
        small = (first >> 1).astype(np.int64)
        return (small ^ -(first & 1).astype(np.int64)), behind
    numbers = (first & 0x7F).astype(np.int64)
    shift = 7
    while longer.size:
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise CorruptRecord("a varint is longer than ten bytes")
        every = longer.size == at.size
        byte = buffer[behind] if every else buffer[behind[longer]]
        if every:
            numbers |= (byte & 0x7F).astype(np.int64) << shift
            behind += 1
        else:
            numbers[longer] |= (byte & 0x7F).astype(np.int64) << shift
            behind[longer] += 1
        longer = longer[byte > 0x7F]
        shift += 7
    # A logical right shift: a varint fills up to 64 bits.
    halves = (numbers.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return halves ^ -(numbers & 1), behind


def _gather(data: bytes, starts: Ints, ends: Ints, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """The bytes between these bounds as a binary column.

    Views the fetched bytes as an array of alternating gaps and wanted pieces, so that Arrow's
    `take` of every second one joins the pieces.
    """
    count = len(starts)
    if is_null.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0] = 0
    bounds[1::2] = starts
    bounds[2::2] = ends
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    odd = np.arange(1, 2 * count, 2, dtype=np.int64)
    indices = pa.array(odd, mask=is_null) if is_null.any() else pa.array(odd)
    return pieces.take(indices)


def _repeat(values: Sequence[Any], counts: Ints) -> Ints:
    return np.repeat(np.array(values, np.int64), counts)


def _timestamps(batches: Sequence[Packed], counts: Ints, deltas: Ints) -> pa.Array:
    """Milliseconds of the producer or the append, as Spark's microseconds."""
    headers = [batch.header for batch in batches]
    milliseconds = _repeat([header.base_timestamp for header in headers], counts) + deltas
    by_broker = [h.timestamp_type is TimestampType.LOG_APPEND_TIME for h in headers]
    if any(by_broker):
        appended = _repeat([header.max_timestamp for header in headers], counts)
        milliseconds = np.where(np.repeat(by_broker, counts), appended, milliseconds)
    return pa.array(milliseconds * 1000, pa.timestamp("us", tz="UTC"))
