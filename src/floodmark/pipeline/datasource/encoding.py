"""Encodes rows as record batches, column-wise: the inverse of `columns.py`. PURE.

Called by `writing.py` for each Arrow batch from Spark. The parts of every record (the numbers
before a key or value, the key, the value, the headers) are byte columns. Arrow's `take` lays them
row by row into one buffer, from which the batches are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floodmark.pipeline.errors import PipelineError
from floodmark.records.batch import (
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    Buffer,
    add_sequence,
    compute_crc,
    read_header,
)
from floodmark.records.compression import Compression, compress
from floodmark.records.record import decode_records, encode_batch, encode_varint
from floodmark.vocabulary import NO_LEADER_EPOCH

Ints = npt.NDArray[np.int64]

_NO_HEADERS: Final = b"\x00"
# The length that stands for a null key or value.
_NULL: Final = -1


class ProducerStamp(NamedTuple):
    """A batch's producer fields."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool


@dataclass(frozen=True)
class Rows:
    """Rows of one partition: byte columns of equal length. None means no headers column."""

    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def has_keys(self) -> bool:
        return bool(self.keys.null_count < self.count)

    def take(self, order: Ints) -> Rows:
        chosen = pa.array(order)
        return Rows(
            self.keys.take(chosen),
            self.values.take(chosen),
            None if self.headers is None else self.headers.take(chosen),
        )


class Piece(NamedTuple):
    """The rows in [start, end) of one batch, and the sequence number of the first."""

    start: int
    end: int
    base_sequence: int


def row_ends(rows: Rows) -> Ints:
    """The approximate end of each record in sequence, for cutting batches."""
    sizes = _sizes(rows.values) + 16
    if rows.has_keys:
        sizes = sizes + _sizes(rows.keys)
    if rows.headers is not None:
        sizes = sizes + _sizes(rows.headers)
    return np.cumsum(sizes)


def cut_by_size(ends: Ints, start: int, end: int, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Cuts [start, end) into batches of about this size. A larger record gets its own."""
    while start < end:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + batch_bytes, "right"))
        cut = min(max(start + 1, fitting), end)
        yield start, cut
        start = cut


def encode_pieces(
    rows: Rows,
    pieces: Sequence[Piece],
    *,
    timestamp_ms: int,
    stamp: ProducerStamp,
    compression: Compression,
) -> list[bytearray]:
    """One batch per piece. The pieces are consecutive and cover all rows.

    Lays out the records of all pieces at once, because the calls to numpy and Arrow cost more than
    the rows of a single batch.
    """
    records, bounds = _records(rows, pieces)
    return [
        _batch(
            piece,
            compress(compression, records[bounds[piece.start] : bounds[piece.end]]),
            timestamp_ms=timestamp_ms,
            stamp=stamp,
            compression=compression,
        )
        for piece in pieces
    ]


def _batch(
    piece: Piece,
    records: Buffer,
    *,
    timestamp_ms: int,
    stamp: ProducerStamp,
    compression: Compression,
) -> bytearray:
    """Header, checksum and records. All records have the same timestamp."""
    count = piece.end - piece.start
    attributes = int(compression) | (TRANSACTIONAL_BIT if stamp.is_transactional else 0)
    batch = bytearray(HEADER_BYTES + len(records))
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD_BYTES,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        stamp.producer_id,
        stamp.producer_epoch,
        piece.base_sequence,
        count,
    )
    batch[HEADER_BYTES:] = records
    crc = compute_crc(batch, 0, len(batch))
    batch[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return batch


def halved(batch: bytearray) -> list[bytearray]:
    """The same records in two batches. Empty for a batch of one record.

    They keep their sequence numbers, so send the halves in place of the whole.
    """
    header = read_header(batch)
    if header.records_count < 2:
        return []
    records = decode_records(batch)
    middle = len(records) // 2
    halves = ((records[:middle], 0), (records[middle:], middle))
    return [
        encode_batch(
            half,
            compression=header.compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=add_sequence(header.base_sequence, before),
            is_transactional=header.is_transactional,
        )
        for half, before in halves
    ]


def _records(rows: Rows, pieces: Sequence[Piece]) -> tuple[memoryview, npt.NDArray[np.int32]]:
    """All records in sequence, and the position of each (and the end of the last)."""
    starts = np.array([piece.start for piece in pieces], np.int64)
    counts = np.array([piece.end - piece.start for piece in pieces], np.int64)
    deltas = _Varints(np.arange(rows.count, dtype=np.int64) - np.repeat(starts, counts))
    value_sizes = _sizes(rows.values, _NULL)
    value_lengths = _Varints(value_sizes)
    if rows.headers is None:
        tails, tail_sizes = pa.array([_NO_HEADERS], pa.binary()), np.ones(1, np.int64)
    else:
        tails, tail_sizes = rows.headers, _sizes(rows.headers)
    # The attributes and the timestamp delta: both are zero in every record.
    nothing = _Varints(np.zeros(1, np.int64))
    bodies: Ints = 2 + deltas.widths + value_lengths.widths + np.maximum(value_sizes, 0)
    bodies += tail_sizes
    if not rows.has_keys:
        no_key = _Varints(np.full(1, _NULL, np.int64))
        fields = [_Varints(bodies + 1), nothing, nothing, deltas, no_key, value_lengths]
        return _laid([_joined(fields, rows.count), _filled(rows.values), tails], rows.count)
    key_sizes = _sizes(rows.keys, _NULL)
    key_lengths = _Varints(key_sizes)
    bodies += key_lengths.widths + np.maximum(key_sizes, 0)
    head = _joined([_Varints(bodies), nothing, nothing, deltas, key_lengths], rows.count)
    middle = _joined([value_lengths], rows.count)
    return _laid([head, _filled(rows.keys), middle, _filled(rows.values), tails], rows.count)


def _laid(parts: Sequence[pa.Array], count: int) -> tuple[memoryview, npt.NDArray[np.int32]]:
    """Row by row, one element of each part. A part of one element is repeated for every row."""
    chosen = np.empty((count, len(parts)), np.int64)
    every_row = np.arange(count)
    base = 0
    for index, part in enumerate(parts):
        chosen[:, index] = every_row + base if len(part) == count else base
        base += len(part)
    laid = pa.concat_arrays(parts).take(pa.array(chosen.ravel()))
    _, offsets, data = laid.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(laid) + 1 : len(parts)]
    return memoryview(data), bounds


class _Varints:
    """Zigzag-encoded numbers with their widths. A single number stands for all rows."""

    def __init__(self, numbers: Ints) -> None:
        self._zigzag = (numbers << 1) ^ (numbers >> 63)
        self.widths = np.ones(len(numbers), np.int64)
        self.widest = 1
        largest: int = self._zigzag.max(initial=0).item()
        while largest >= 1 << 7 * self.widest:
            self.widths += self._zigzag >= 1 << 7 * self.widest
            self.widest += 1

    def write(self, cells: npt.NDArray[np.uint8], is_used: npt.NDArray[np.bool_]) -> None:
        """Fills one row of cells per number, and marks those that a narrow number does not use."""
        for index in range(self.widest):
            cells[:, index] = (self._zigzag >> 7 * index).astype(np.uint8) & 0x7F
            if index:
                is_longer = self.widths > index
                is_used[:, index] = is_longer
                cells[:, index - 1] |= is_longer.view(np.uint8) << 7


def _joined(fields: Sequence[_Varints], count: int) -> pa.Array:
    """The numbers of each row side by side."""
    widest = sum(field.widest for field in fields)
    cells = np.empty((count, widest), np.uint8)
    is_used = np.ones((count, widest), np.bool_)
    widths = np.zeros(count, np.int64)
    first = 0
    for field in fields:
        last = first + field.widest
        field.write(cells[:, first:last], is_used[:, first:last])
        widths += field.widths
        first = last
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(widths, out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(cells[is_used])]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, b"") if column.null_count else column


def _sizes(column: pa.Array, of_null: int = 0) -> Ints:
    """The bytes of each element."""
    lengths = pc.binary_length(column)
    if column.null_count:
        lengths = pc.fill_null(lengths, of_null)
    return np.asarray(lengths).astype(np.int64)


def header_bytes(column: pa.Array) -> pa.Array:
    """The headers of each row in record format. Rows without any get the count zero."""
    encoded = [_NO_HEADERS if not row else _encode_headers(row) for row in column.to_pylist()]
    return pa.array(encoded, pa.binary())


def _encode_headers(headers: list[dict[str, str | bytes | None] | None]) -> bytes:
    parts = [encode_varint(len(headers))]
    for header in headers:
        if header is None or not isinstance(header["key"], str):
            raise PipelineError("a row has a header without a key: set the key, or drop the header")
        name = header["key"].encode()
        parts += (encode_varint(len(name)), name)
        value = header["value"]
        if value is None:
            parts.append(encode_varint(-1))
        else:
            data = value if isinstance(value, bytes) else value.encode()
            parts += (encode_varint(len(data)), data)
    return b"".join(parts)
