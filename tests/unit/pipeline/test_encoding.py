"""Rows become the batches that the record encoder makes, on the partitions Java would choose."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.client.producer.partitioner import partition_for_key
from floodmark.pipeline.datasource.encoding import (
    Piece,
    ProducerStamp,
    Rows,
    cut_by_size,
    encode_pieces,
    halved,
    header_bytes,
    row_ends,
)
from floodmark.pipeline.datasource.partitioning import partitions_of_keys, spread
from floodmark.pipeline.datasource.writing import Run, by_partition, portions
from floodmark.records.batch import read_header
from floodmark.records.compression import Compression
from floodmark.records.record import Record, decode_records, encode_batch

optional_bytes = st.none() | st.binary(max_size=200)
STAMP = ProducerStamp(9, 1, True)


def binary(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


@settings(deadline=None)
@given(
    st.lists(st.tuples(optional_bytes, optional_bytes), min_size=1, max_size=150),
    st.sampled_from(list(Compression)),
    st.booleans(),
    st.integers(0, 150),
)
def test_a_batch_of_rows_is_the_batch_of_its_records(
    pairs: list[tuple[bytes | None, bytes | None]], codec: Compression, keyless: bool, cut: int
) -> None:
    if keyless:
        pairs = [(None, value) for _, value in pairs]
    rows = Rows(binary([k for k, _ in pairs]), binary([v for _, v in pairs]), None)
    cut = min(cut, len(pairs))
    pieces = [p for p in (Piece(0, cut, 5), Piece(cut, len(pairs), 5 + cut)) if p.start < p.end]
    batches = encode_pieces(rows, pieces, timestamp_ms=77, stamp=STAMP, compression=codec)
    for piece, encoded in zip(pieces, batches, strict=True):
        expected = encode_batch(
            [Record(0, 77, key, value, []) for key, value in pairs[piece.start : piece.end]],
            compression=codec,
            producer_id=9,
            producer_epoch=1,
            base_sequence=piece.base_sequence,
            is_transactional=True,
        )
        assert decode_records(encoded) == decode_records(expected)
        if codec is Compression.NONE:
            assert encoded == expected


@settings(deadline=None)
@given(st.lists(st.sampled_from([10, 70, 9_000, 3_000_000]), min_size=1, max_size=4))
def test_lengths_of_every_width_stand_beside_each_other(sizes: list[int]) -> None:
    values = [b"v" * size for size in sizes]
    rows = Rows(binary([b"k", *[None] * (len(sizes) - 1)]), binary(values), None)
    pieces = [Piece(0, len(sizes), 0)]
    encoded = encode_pieces(rows, pieces, timestamp_ms=0, stamp=STAMP, compression=Compression.NONE)
    assert [record.value for record in decode_records(encoded[0])] == values


def test_headers_and_slices_are_encoded() -> None:
    column = pa.array([None, [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], []])
    headers = header_bytes(column)
    rows = Rows(binary([None] * 2), binary([b"x", b"y", b"z"]).slice(1), headers.slice(1))
    [encoded] = encode_pieces(
        rows, [Piece(0, 2, 0)], timestamp_ms=0, stamp=STAMP, compression=Compression.NONE
    )
    assert [(r.value, r.headers) for r in decode_records(encoded)] == [
        (b"y", [("a", b"1"), ("b", None)]),
        (b"z", []),
    ]
    assert read_header(encoded).is_transactional


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 12), st.integers(0, 3))
def test_keys_go_where_java_sends_them(keys: list[bytes], partitions: int, skip: int) -> None:
    column = binary(keys).slice(skip)
    expected = [partition_for_key(key, partitions) for key in keys[skip:]]
    assert partitions_of_keys(column, partitions).tolist() == expected


def test_rows_without_a_key_are_spread_in_equal_runs() -> None:
    assert spread(6, 3, 1).tolist() == [1, 1, 2, 2, 0, 0]
    assert spread(0, 3, 1).tolist() == []


def test_batches_are_cut_by_size_and_a_large_row_stands_alone() -> None:
    rows = Rows(binary([None] * 5), binary([b"x" * n for n in (10, 10, 500, 10, 10)]), None)
    ends = row_ends(rows)
    assert list(cut_by_size(ends, 0, 5, 60)) == [(0, 2), (2, 3), (3, 5)]
    assert list(cut_by_size(ends, 1, 2, 60)) == [(1, 2)]


def test_rows_of_a_partition_stand_together_in_their_order() -> None:
    rows = Rows(binary([None] * 5), binary([b"a", b"b", b"c", b"d", b"e"]), None)
    mixed, runs = by_partition(rows, np.array([2, 0, 2, 0, 1]))
    assert mixed.values.to_pylist() == [b"b", b"d", b"e", b"a", b"c"]
    assert runs == [Run(0, 0, 2), Run(1, 2, 3), Run(2, 3, 5)]
    same, runs = by_partition(rows, np.array([2, 2, 0, 0, 1]))
    assert same is rows
    assert runs == [Run(2, 0, 2), Run(0, 2, 4), Run(1, 4, 5)]


def test_large_arrow_batches_are_written_in_portions() -> None:
    value = b"x" * (30 * 2**20)
    batch = pa.RecordBatch.from_arrays([binary([value] * 5)], names=["value"])
    assert [portion.num_rows for portion in portions(batch)] == [2, 1, 2]
    assert list(portions(batch.slice(0, 0))) == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(optional_bytes, optional_bytes), min_size=1, max_size=20),
    st.sampled_from(list(Compression)),
)
def test_halves_of_a_batch_have_its_records_and_go_on_with_its_sequence(
    pairs: list[tuple[bytes | None, bytes | None]], codec: Compression
) -> None:
    rows = Rows(binary([k for k, _ in pairs]), binary([v for _, v in pairs]), None)
    # The sequence wraps inside the batch.
    piece = Piece(0, len(pairs), 2**31 - 2)
    [whole] = encode_pieces(rows, [piece], timestamp_ms=77, stamp=STAMP, compression=codec)
    halves = halved(whole)
    if len(pairs) == 1:
        assert halves == []
        return
    found = [record for half in halves for record in decode_records(half)]
    assert [(r.key, r.value, r.timestamp) for r in found] == [(k, v, 77) for k, v in pairs]
    first, second = (read_header(half) for half in halves)
    assert first.base_sequence == 2**31 - 2
    assert second.base_sequence == (2**31 - 2 + first.records_count) % 2**31
    assert {(h.producer_id, h.producer_epoch, h.is_transactional) for h in (first, second)} == {
        (9, 1, True)
    }
