"""Records inside a batch: decode a whole batch into a list, encode a list into a batch.

Called by the client, the command line, the coordinators and compaction; the broker's produce and
fetch never come here. Both ways are one straight loop with the varints written out, because they
run once per record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from floodmark.records.batch import (
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    TimestampType,
    check_shape,
    compute_crc,
    read_header,
)
from floodmark.records.compression import (
    DEFAULT_OUTPUT_LIMIT_BYTES,
    Compression,
    compress,
    decompress,
)
from floodmark.records.errors import CorruptRecord

Header = tuple[str, bytes | None]
"""A name that is no UTF-8 is there with surrogate escapes, as Python does with names of files:
compaction and a topic's compression write the same bytes again."""

# A 64-bit value takes at most ten groups of seven bits.
_MAX_VARINT_SHIFT: Final = 63
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
_NULL: Final = _ONE_BYTE[1]


class Record(NamedTuple):
    """One record; timestamps are milliseconds since 1970, a missing key or value is None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] = []  # noqa: RUF012 - decoding and callers always pass their own list


def header_name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def decode_records(
    buffer: Buffer, position: int = 0, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
) -> list[Record]:
    """All records of the batch at this position; CorruptRecord when the bytes do not add up."""
    header = read_header(buffer, position)
    check_shape(header)
    size_bytes = header.size_bytes
    if len(buffer) - position < size_bytes:
        raise CorruptRecord(f"batch of {size_bytes} bytes, {len(buffer) - position} left")
    packed = memoryview(buffer)[position + HEADER_BYTES : position + size_bytes]
    data = bytes(decompress(header.compression, packed, limit_bytes))
    append_time = (
        header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    )
    try:
        return _decode(
            data, header.records_count, header.base_offset, header.base_timestamp, append_time
        )
    except IndexError as error:
        raise CorruptRecord(f"broken record in the batch at offset {header.base_offset}") from error


def _decode(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    records: list[Record] = []
    add = records.append
    end_of_data = len(data)
    p = 0
    for _ in range(count):
        n = data[p]
        p += 1
        if n > 0x7F:
            n, p = _long_varint(data, p, n)
        end = p + ((n >> 1) ^ -(n & 1))
        if end > end_of_data:
            raise CorruptRecord(f"a record ends {end - end_of_data} bytes after its batch")
        p += 1  # the attributes of a record have no meaning yet
        n = data[p]
        p += 1
        if n > 0x7F:
            n, p = _long_varint(data, p, n)
        timestamp = base_timestamp + ((n >> 1) ^ -(n & 1)) if append_time is None else append_time
        n = data[p]
        p += 1
        if n > 0x7F:
            n, p = _long_varint(data, p, n)
        offset = base_offset + ((n >> 1) ^ -(n & 1))
        n = data[p]
        p += 1
        if n > 0x7F:
            n, p = _long_varint(data, p, n)
        if n & 1:
            key = None
        else:
            key = data[p : p + (n >> 1)]
            p += n >> 1
        n = data[p]
        p += 1
        if n > 0x7F:
            n, p = _long_varint(data, p, n)
        if n & 1:
            value = None
        else:
            value = data[p : p + (n >> 1)]
            p += n >> 1
        n = data[p]
        p += 1
        headers: list[Header] = []
        if n:
            p = _decode_headers(data, p, n, headers)
        if p != end:
            raise CorruptRecord(f"a record says it ends at {end} but ends at {p}")
        add(tuple.__new__(Record, (offset, timestamp, key, value, headers)))
    if p != end_of_data:
        raise CorruptRecord(f"{end_of_data - p} bytes follow the last record of the batch")
    return records


def _decode_headers(data: bytes, p: int, n: int, headers: list[Header]) -> int:
    """Read the headers whose count begins with byte n; returns the position behind them."""
    if n > 0x7F:
        n, p = _long_varint(data, p, n)
    if n & 1:
        raise CorruptRecord("negative number of record headers")
    for _ in range(n >> 1):
        size, p = _varint(data, p)
        if size < 0:
            raise CorruptRecord("a record header has no name")
        name = data[p : p + size].decode("utf-8", "surrogateescape")
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
        n, p = _long_varint(data, p, n)
    return (n >> 1) ^ -(n & 1), p


def _long_varint(data: bytes, p: int, n: int) -> tuple[int, int]:
    """The rest of a varint whose first byte n said that more follow; still zigzagged."""
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
    """One batch, ready to send or append, in a buffer of its own that a log may patch in place.

    Records are numbered from base_offset on; compaction alone sets keep_offsets (its batches have
    gaps), last_offset (a batch keeps its range when its last records go) and delete_horizon_ms.
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
                _ONE_BYTE[0],
                encode_varint(timestamp - base_timestamp),
                encode_varint(delta),
                _NULL if key is None else encode_varint(len(key)),
                key or b"",
                _NULL if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else _ONE_BYTE[0],
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
    """A signed number, zigzagged, in groups of seven bits, the lowest first."""
    n = value << 1 if value >= 0 else (-value << 1) - 1
    if n < 0x80:
        return _ONE_BYTE[n]
    if n < 0x4000:
        return bytes((n & 0x7F | 0x80, n >> 7))
    groups = bytearray()
    while n > 0x7F:
        groups.append(n & 0x7F | 0x80)
        n >>= 7
    groups.append(n)
    return bytes(groups)
