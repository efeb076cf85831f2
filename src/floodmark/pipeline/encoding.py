"""Rows to record batches, column-wise: the way back of `columns.py`. PURE.

Called by `sink.py` for each Arrow batch that Spark hands over. The pieces of every record (lengths,
key, value, headers) are columns of bytes, and Arrow joins them row by row; the joined column's
buffer is then the records part of a batch as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floodmark.records.batch import (
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_BIT,
    compute_crc,
)
from floodmark.records.compression import Compression, compress
from floodmark.records.record import encode_varint

Ints = npt.NDArray[np.int64]

# The longest varint of an int32 length: five groups of seven bits.
_LENGTH_BYTES: Final = 5
_ATTRIBUTES_AND_TIMESTAMP: Final = b"\x00\x00"
_NO_HEADERS: Final = b"\x00"


class ProducerStamp(NamedTuple):
    """What a batch says of its producer."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool


@dataclass(frozen=True)
class Rows:
    """Rows of one partition: bytes columns of equal length; no headers column when None."""

    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None

    @property
    def count(self) -> int:
        return len(self.values)

    def slice(self, start: int, end: int) -> Rows:
        return Rows(
            self.keys.slice(start, end - start),
            self.values.slice(start, end - start),
            None if self.headers is None else self.headers.slice(start, end - start),
        )


def row_sizes(rows: Rows) -> Ints:
    """About the bytes of each record, for cutting batches."""
    sizes = _sizes(rows.keys) + _sizes(rows.values) + 16
    if rows.headers is not None:
        sizes = sizes + _sizes(rows.headers)
    return sizes


def cut_by_size(rows: Rows, batch_bytes: int) -> Iterator[Rows]:
    """Slices that make batches of about this size; a larger record gets one of its own."""
    ends = np.cumsum(row_sizes(rows))
    start = 0
    while start < rows.count:
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + batch_bytes, "right")))
        yield rows.slice(start, end)
        start = end


def encode_rows(
    rows: Rows,
    *,
    timestamp_ms: int,
    base_sequence: int,
    stamp: ProducerStamp,
    compression: Compression,
) -> bytearray:
    """One batch with all of these rows; their timestamp is the same."""
    packed = compress(compression, _records(rows))
    attributes = int(compression) | (TRANSACTIONAL_BIT if stamp.is_transactional else 0)
    batch = bytearray(HEADER_BYTES + len(packed))
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD_BYTES,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        attributes,
        rows.count - 1,
        timestamp_ms,
        timestamp_ms,
        stamp.producer_id,
        stamp.producer_epoch,
        base_sequence,
        rows.count,
    )
    batch[HEADER_BYTES:] = packed
    crc = compute_crc(batch, 0, len(batch))
    batch[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return batch


def _records(rows: Rows) -> memoryview:
    key_sizes, value_sizes = _signed_sizes(rows.keys), _signed_sizes(rows.values)
    deltas, delta_widths = _varints(np.arange(rows.count, dtype=np.int64))
    key_lengths, key_widths = _varints(key_sizes)
    value_lengths, value_widths = _varints(value_sizes)
    headers = _NO_HEADERS if rows.headers is None else rows.headers
    header_sizes = np.ones(rows.count, np.int64)
    if rows.headers is not None:
        header_sizes = _sizes(rows.headers)
    bodies: Ints = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + header_sizes
    bodies += delta_widths + key_widths + value_widths + len(_ATTRIBUTES_AND_TIMESTAMP)
    lengths, _ = _varints(bodies)
    joined = pc.binary_join_element_wise(
        lengths,
        pa.scalar(_ATTRIBUTES_AND_TIMESTAMP, pa.binary()),
        deltas,
        key_lengths,
        rows.keys,
        value_lengths,
        rows.values,
        pa.scalar(headers, pa.binary()) if isinstance(headers, bytes) else headers,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]


def _varints(numbers: Ints) -> tuple[pa.Array, Ints]:
    """Each number zigzagged as bytes of its own width, and the widths."""
    zigzag = (numbers << 1) ^ (numbers >> 63)
    widths = np.ones(len(numbers), np.int64)
    for groups in range(1, _LENGTH_BYTES):
        widths += zigzag >= 1 << 7 * groups
    bounds = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(widths, out=bounds[1:])
    data = np.empty(int(bounds[-1]), np.uint8)
    for index in range(int(widths.max(initial=1))):
        wide = widths > index
        more = np.where(widths[wide] > index + 1, 0x80, 0)
        data[bounds[:-1][wide] + index] = ((zigzag[wide] >> 7 * index) & 0x7F) | more
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers), widths


def _sizes(column: pa.Array) -> Ints:
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return np.asarray(lengths).astype(np.int64)


def _signed_sizes(column: pa.Array) -> Ints:
    """Lengths as records write them: -1 for null."""
    lengths = pc.fill_null(pc.binary_length(column), -1)
    return np.asarray(lengths).astype(np.int64)


def header_bytes(column: pa.Array) -> pa.Array:
    """The headers of each row as they stand in a record; rows with none get the count zero."""
    encoded = [_NO_HEADERS if not row else _encode_headers(row) for row in column.to_pylist()]
    return pa.array(encoded, pa.binary())


def _encode_headers(headers: list[dict[str, str | bytes | None]]) -> bytes:
    parts = [encode_varint(len(headers))]
    for header in headers:
        name = str(header["key"]).encode()
        parts += (encode_varint(len(name)), name)
        value = header["value"]
        if value is None:
            parts.append(encode_varint(-1))
        else:
            data = value if isinstance(value, bytes) else value.encode()
            parts += (encode_varint(len(data)), data)
    return b"".join(parts)
