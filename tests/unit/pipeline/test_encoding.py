"""Rows become the batches that the record encoder makes, on the partitions Java would choose."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.client.partitioner import partition_for_key
from floodmark.pipeline.encoding import (
    ProducerStamp,
    Rows,
    cut_by_size,
    encode_rows,
    header_bytes,
)
from floodmark.pipeline.partitioning import partitions_of_keys, spread
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
)
def test_a_batch_of_rows_is_the_batch_of_its_records(
    pairs: list[tuple[bytes | None, bytes | None]], codec: Compression
) -> None:
    rows = Rows(binary([k for k, _ in pairs]), binary([v for _, v in pairs]), None)
    encoded = encode_rows(rows, timestamp_ms=77, base_sequence=5, stamp=STAMP, compression=codec)
    expected = encode_batch(
        [Record(0, 77, key, value, []) for key, value in pairs],
        compression=codec,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        is_transactional=True,
    )
    assert decode_records(encoded) == decode_records(expected)
    if codec is Compression.NONE:
        assert encoded == expected


def test_headers_and_slices_are_encoded() -> None:
    column = pa.array([None, [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], []])
    rows = Rows(binary([None] * 3), binary([b"x", b"y", b"z"]), header_bytes(column))
    encoded = encode_rows(
        rows.slice(1, 3), timestamp_ms=0, base_sequence=0, stamp=STAMP, compression=Compression.NONE
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
    assert [piece.count for piece in cut_by_size(rows, 60)] == [2, 1, 2]
