"""Decodes a batch into records, all at once or in steps, and encodes records into a batch.

Called by the client, the command line, the coordinators and compaction. The broker's produce and
fetch use scan.py instead, where they must read records. Decoding and encoding are each one loop
with inlined varints, because it runs once per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from floodmark.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    TimestampType,
    check_shape,
    compute_crc,
    read_header,
)
from floodmark.records.compression import Compression, compress, decompress, unpack
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.limits import (
    READABLE_BYTES,
    READABLE_ITEMS,
    most_items,
    most_unpacked_bytes,
)
from floodmark.vocabulary import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from floodmark.wire.primitives import ONE_BYTE
from floodmark.wire.primitives import encode_varint as encode_unsigned_varint

Header = tuple[str, bytes | None]
"""Names that are not UTF-8 are decoded with surrogate escapes, as Python does with file names, so
compaction and recompression write the same bytes again."""

# A 64-bit value has at most ten groups of seven bits.
LONGEST_VARINT_BYTES: Final = 10
_MAX_VARINT_SHIFT: Final = 63
_NULL: Final = ONE_BYTE[1]


class Record(NamedTuple):
    """One record. The timestamp is in milliseconds since 1970. Key and value may be None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] = []  # noqa: RUF012 - decoding and callers always pass their own list


def header_name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def decode_records(
    buffer: Buffer, position: int = 0, limit_bytes: int = READABLE_BYTES
) -> list[Record]:
    """All records of the batch at this position. Raises CorruptRecord for invalid data."""
    runs = list(_runs(buffer, position, limit_bytes, READABLE_ITEMS))
    return runs[0] if len(runs) == 1 else list(chain.from_iterable(runs))


def iter_records(
    buffer: Buffer, position: int = 0, limit_bytes: int = READABLE_BYTES
) -> Iterator[Record]:
    """The same in steps, for untrusted data and for callers that keep few records. Yields the
    records before an invalid one."""
    return chain.from_iterable(_runs(buffer, position, limit_bytes, READABLE_ITEMS))


def decode_within_limits(buffer: Buffer, position: int, header: BatchHeader) -> list[Record]:
    """All records of a batch that a client may have crafted. Raises DecompressionTooLarge if they
    exceed `limits`."""
    limit_bytes, items = most_unpacked_bytes(header.size_bytes), most_items(header.size_bytes)
    return list(chain.from_iterable(_runs(buffer, position, limit_bytes, items)))


def _runs(
    buffer: Buffer, position: int, limit_bytes: int, items_limit: int
) -> Iterator[list[Record]]:
    header = read_header(buffer, position)
    check_shape(header)
    size_bytes = header.size_bytes
    if len(buffer) - position < size_bytes:
        raise CorruptRecord(f"batch of {size_bytes} bytes, {len(buffer) - position} left")
    packed = memoryview(buffer)[position + HEADER_BYTES : position + size_bytes]
    decoder = _Decoder(header, items_limit)
    try:
        if header.attributes & COMPRESSION_MASK:
            for piece in unpack(header.compression, packed, limit_bytes):
                yield decoder.feed(piece)
            yield decoder.end(b"")
        else:
            yield decoder.end(bytes(decompress(Compression.NONE, packed, limit_bytes)))
    except IndexError as error:
        raise CorruptRecord(f"broken record in the batch at offset {header.base_offset}") from error


class _Decoder:
    """Decodes complete records, and keeps the rest until more data arrives."""

    def __init__(self, header: BatchHeader, items_limit: int) -> None:
        self._count = header.records_count
        self._items_left = items_limit - self._count
        if self._items_left < 0:
            raise DecompressionTooLarge(f"the batch claims {self._count} records")
        self._base_offset = header.base_offset
        self._base_timestamp = header.base_timestamp
        self._append_time = (
            header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        )
        self._pieces: list[Buffer] = []
        self._held_bytes = self._needed_bytes = 0

    def feed(self, piece: Buffer) -> list[Record]:
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes < self._needed_bytes:
            return []
        data = b"".join(self._pieces)
        return self._decode(data, len(data) - LONGEST_VARINT_BYTES)

    def end(self, rest: bytes) -> list[Record]:
        data = b"".join((*self._pieces, rest)) if self._pieces else rest
        records = self._decode(data, len(data))
        if self._count:
            raise CorruptRecord(f"{self._count} records are missing at the end of the batch")
        if self._held_bytes:
            raise CorruptRecord(f"{self._held_bytes} bytes follow the last record of the batch")
        return records

    def _decode(self, data: bytes, begin_before: int) -> list[Record]:
        """A record that starts after this position may be missing a part of its length."""
        records: list[Record] = []
        add = records.append
        base_offset, base_timestamp = self._base_offset, self._base_timestamp
        append_time = self._append_time
        end_of_data = len(data)
        self._needed_bytes = p = 0
        for _ in range(self._count):
            if p >= begin_before:
                break
            start = p
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            end = p + ((n >> 1) ^ -(n & 1))
            if end > end_of_data:
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
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            offset = base_offset + ((n >> 1) ^ -(n & 1))
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            if n & 1:
                key = None
            else:
                key = data[p : p + (n >> 1)]
                p += n >> 1
            n = data[p]
            p += 1
            if n > 0x7F:
                n, p = long_varint(data, p, n)
            if n & 1:
                value = None
            else:
                value = data[p : p + (n >> 1)]
                p += n >> 1
            n = data[p]
            p += 1
            headers: list[Header] = []
            if n:
                p = decode_headers(data, p, n, headers, self._items_left)
                self._items_left -= len(headers)
            if p != end:
                raise CorruptRecord(f"a record claims to end at {end} but ends at {p}")
            add(tuple.__new__(Record, (offset, timestamp, key, value, headers)))
        self._count -= len(records)
        self._held_bytes = end_of_data - p
        self._pieces = [data[p:]] if self._held_bytes else []
        return records


def decode_headers(
    data: bytes,
    p: int,
    n: int,
    headers: list[Header],
    most: int,
    errors: str = "surrogateescape",
) -> int:
    """Reads the headers. `n` is the first byte of their count. Returns the position after them.

    Refuses more than `most`. `errors` says how to decode names that are not UTF-8.
    """
    if n > 0x7F:
        n, p = long_varint(data, p, n)
    if n & 1:
        raise CorruptRecord("negative number of record headers")
    if n >> 1 > most:
        raise DecompressionTooLarge("the batch has too many records and record headers")
    for _ in range(n >> 1):
        size, p = _varint(data, p)
        if size < 0:
            raise CorruptRecord("a record header has no name")
        name = data[p : p + size].decode("utf-8", errors)
        p += size
        size, p = _varint(data, p)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[p : p + size]))
            p += size
    return p


def _varint(data: bytes, p: int) -> tuple[int, int]:
    n = data[p]
    p += 1
    if n > 0x7F:
        n, p = long_varint(data, p, n)
    return (n >> 1) ^ -(n & 1), p


def long_varint(data: bytes | bytearray, p: int, n: int) -> tuple[int, int]:
    """The rest of a varint whose first byte is `n`. The result is still zigzag-encoded."""
    n &= 0x7F
    shift = 7
    while True:
        byte = data[p]
        p += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise CorruptRecord("a varint is longer than ten bytes")


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    keep_offsets: bool = False,
    last_offset: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch, ready to send or append, in a new buffer that a log may patch in place.

    Records are numbered from base_offset on. Only compaction sets keep_offsets (its batches have
    gaps), last_offset (a batch keeps its range without its last records) and delete_horizon_ms.
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = int(compression)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    if keep_offsets:
        deltas: Sequence[int] = [record.offset - base_offset for record in records]
    else:
        deltas = range(len(records))
    if last_offset is not None:
        last_offset_delta = last_offset - base_offset
    else:
        last_offset_delta = deltas[-1] if records else 0
    packed = compress(compression, _encode(records, deltas, base_timestamp), compression_level)
    batch = bytearray(HEADER_BYTES + len(packed))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch[HEADER_BYTES:] = packed
    crc = compute_crc(batch, 0, len(batch))
    batch[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return batch


def _encode(records: Sequence[Record], deltas: Sequence[int], base_timestamp: int) -> bytes:
    parts: list[bytes] = []
    add = parts.append
    for record, delta in zip(records, deltas, strict=True):
        _, timestamp, key, value, headers = record
        body = b"".join(
            (
                ONE_BYTE[0],
                encode_varint(timestamp - base_timestamp),
                encode_varint(delta),
                _NULL if key is None else encode_varint(len(key)),
                key or b"",
                _NULL if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else ONE_BYTE[0],
            )
        )
        add(encode_varint(len(body)))
        add(body)
    return b"".join(parts)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded_name = header_name_bytes(name)
        parts.append(encode_varint(len(encoded_name)))
        parts.append(encoded_name)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def encode_varint(value: int) -> bytes:
    """A signed varint: zigzag encoding."""
    n = value << 1 if value >= 0 else (-value << 1) - 1
    if n < 0x80:
        return ONE_BYTE[n]
    if n < 0x4000:
        # Inlined, because most offsets and sizes take two bytes.
        return bytes((n & 0x7F | 0x80, n >> 7))
    return encode_unsigned_varint(n)
