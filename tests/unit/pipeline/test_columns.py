"""Columns of record batches agree with the record-by-record decoder, and damage is found."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.pipeline.datasource.columns import RowBuilder, unpack
from floodmark.pipeline.datasource.visible_batches import VisibleBatches
from floodmark.records.batch import TimestampType, iter_headers, read_header
from floodmark.records.compression import Compression
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Record, decode_records, encode_batch

optional_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3)
records = st.builds(
    Record,
    st.just(0),
    st.integers(0, 2**42),
    optional_bytes,
    optional_bytes,
    headers,
)


def rows_of(*batches: bytes, start: int = 0, end: int = 2**62, with_headers: bool = True):
    packed = [unpack(batch, 0, read_header(batch)) for batch in batches]
    return RowBuilder("t", 3, include_headers=with_headers).rows(packed, start, end).to_pylist()


@settings(deadline=None)  # the first example pays for Arrow's imports
@given(st.lists(st.lists(records, min_size=1, max_size=20), min_size=1, max_size=4), st.data())
def test_columns_hold_what_the_records_hold(
    groups: list[list[Record]], data: st.DataObject
) -> None:
    batches, base_offset = [], 7
    for group in groups:
        codec = data.draw(st.sampled_from(list(Compression)))
        batch = encode_batch(group, base_offset=base_offset, compression=codec)
        batches.append(bytes(batch))
        base_offset += len(group)
    expected = [record for batch in batches for record in decode_records(batch)]
    rows = rows_of(*batches)
    assert [(r["offset"], r["key"], r["value"]) for r in rows] == [
        (e.offset, e.key, e.value) for e in expected
    ]
    assert [round(r["timestamp"].timestamp() * 1000) for r in rows] == [
        e.timestamp for e in expected
    ]
    assert [[(h["key"], h["value"]) for h in r["headers"] or []] for r in rows] == [
        e.headers for e in expected
    ]


def test_only_the_wanted_offsets_come_and_gaps_of_compaction_are_no_error() -> None:
    kept = [Record(offset, 5, b"k", b"%d" % offset, []) for offset in (100, 103, 104, 120)]
    batch = bytes(encode_batch(kept, base_offset=100, keep_offsets=True))
    assert [row["offset"] for row in rows_of(batch, start=101, end=120)] == [103, 104]


def test_append_time_stands_for_every_record_of_its_batch() -> None:
    batch = bytes(
        encode_batch(
            [Record(0, 1000, None, b"a", []), Record(0, 9000, None, b"b", [])],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
        )
    )
    rows = rows_of(batch)
    assert [(r["timestamp"].timestamp(), r["timestampType"]) for r in rows] == [(9.0, 1), (9.0, 1)]


def test_damaged_records_are_found_and_never_read_past_their_batch() -> None:
    generator = random.Random(5)
    group = [Record(0, 5, b"key", generator.randbytes(50), [("h", b"v")]) for _ in range(20)]
    batch = bytes(encode_batch(group))
    for _ in range(2000):
        damaged = bytearray(batch)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(61, len(batch))] = generator.randrange(256)
        try:
            rows_of(bytes(damaged))
        except CorruptRecord:
            continue


def transactional(producer_id: int, base_offset: int, values: list[bytes]) -> bytes:
    group = [Record(0, 5, None, value, []) for value in values]
    return bytes(
        encode_batch(
            group,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(kind: ControlType, producer_id: int, base_offset: int) -> bytes:
    return bytes(
        encode_marker(
            EndTransactionMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=5,
            base_offset=base_offset,
        )
    )


def test_aborted_and_control_batches_are_skipped_and_the_position_goes_behind_them() -> None:
    data = b"".join(
        [
            transactional(1, 0, [b"aborted"]),
            transactional(2, 1, [b"committed"]),
            marker(ControlType.ABORT, 1, 2),
            transactional(1, 3, [b"second try"]),
            marker(ControlType.COMMIT, 2, 4),
            marker(ControlType.COMMIT, 1, 5),
        ]
    )
    found = VisibleBatches(memoryview(data), 0, aborted=[(0, 1)])
    assert [header.base_offset for _, header in found.batches] == [1, 3]
    assert found.next_position == 6
    everything = VisibleBatches(memoryview(data), 0)
    assert [header.base_offset for _, header in everything.batches] == [0, 1, 3]


def test_a_wrong_checksum_is_an_error_unless_checks_are_off() -> None:
    data = bytearray(transactional(1, 0, [b"value"]))
    data[-2] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        VisibleBatches(memoryview(bytes(data)), 0)
    assert VisibleBatches(memoryview(bytes(data)), 0, check_crcs=False).batches
    assert len(list(iter_headers(bytes(data)))) == 1


@pytest.mark.parametrize("seed", range(8))
def test_long_runs_of_equal_records_and_others_among_them_are_read_alike(seed: int) -> None:
    generator = random.Random(seed)
    others = set(generator.sample(range(9000), seed * 3))
    group = [
        Record(0, 5, None, b"x" * (generator.randrange(400) if i in others else 60), [])
        for i in range(9000)
    ]
    batch = bytes(encode_batch(group))
    rows = rows_of(batch, batch_two := bytes(encode_batch(group[:200], base_offset=9000)))
    expected = decode_records(batch) + decode_records(batch_two)
    assert [(r["offset"], r["value"]) for r in rows] == [(e.offset, e.value) for e in expected]
