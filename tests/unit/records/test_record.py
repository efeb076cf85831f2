"""Encoding and decoding records, alone and against aiokafka's implementation."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.records.batch import read_header
from floodmark.records.compression import Compression
from floodmark.records.control import (
    ControlType,
    EndTransactionMarker,
    decode_marker,
    encode_marker,
)
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.record import Record, decode_records, encode_batch

maybe_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3)
records = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**45), maybe_bytes, maybe_bytes, headers),
    min_size=1,
    max_size=20,
)


@given(st.binary(max_size=10))
def test_header_names_of_any_bytes_survive_the_round_trip(name: bytes) -> None:
    # Kafka never looks at them in the broker; Latin-1 from a C client is enough to meet one.
    batch = encode_batch(
        [Record(0, 0, b"k", b"v", [(name.decode(errors="surrogateescape"), b"x")])]
    )
    assert name in batch
    assert encode_batch(decode_records(batch)) == batch


@given(records, st.sampled_from(Compression), st.integers(0, 2**60))
def test_records_survive_the_round_trip(
    given_records: list[Record], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(given_records, base_offset=base_offset, compression=compression)
    expected = [r._replace(offset=base_offset + i) for i, r in enumerate(given_records)]
    assert decode_records(batch) == expected
    assert read_header(batch).compression is compression
    assert decode_records(b"junk" + batch, 4) == expected


@given(st.binary(min_size=0, max_size=80), st.sampled_from(Compression), st.integers(1, 100))
def test_nonsense_is_corrupt_and_nothing_else(
    body: bytes, compression: Compression, count: int
) -> None:
    batch = encode_batch([Record(0, 0, None, None, [])], compression=Compression.NONE)[:61] + body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = int(compression).to_bytes(2, "big")
    batch[57:61] = count.to_bytes(4, "big")
    with contextlib.suppress(CorruptRecord):
        decode_records(batch)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_cut_batch_is_corrupt(compression: Compression) -> None:
    batch = encode_batch([Record(0, 0, b"k", b"v" * 1000, [])], compression=compression)
    for cut in (1, 5, len(batch) - 70):
        short = batch[:-cut]
        short[8:12] = (len(short) - 12).to_bytes(4, "big")
        with pytest.raises(CorruptRecord):
            decode_records(short)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_decompression_bomb_is_refused(compression: Compression) -> None:
    batch = encode_batch([Record(0, 0, None, bytes(3_000_000), [])], compression=compression)
    with pytest.raises(DecompressionTooLarge):
        decode_records(batch, limit_bytes=1_000_000)


def test_bytes_behind_the_last_record_are_corrupt() -> None:
    batch = encode_batch([Record(0, 0, b"k", b"v", []), Record(0, 0, b"k", b"v", [])])
    batch[57:61] = (1).to_bytes(4, "big")
    with pytest.raises(CorruptRecord):
        decode_records(batch)


def test_gaps_are_kept_for_compaction() -> None:
    kept = [Record(10, 5, b"a", b"1", []), Record(14, 9, b"b", b"2", [])]
    batch = encode_batch(
        kept, base_offset=8, keep_offsets=True, last_offset=20, delete_horizon_ms=77
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (8, 20, 2)
    assert header.has_delete_horizon
    assert header.base_timestamp == 77
    assert header.max_timestamp == 9
    assert decode_records(batch) == kept


@pytest.mark.parametrize("control_type", list(ControlType))
def test_markers_survive_the_round_trip(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 12)
    batch = encode_marker(marker, producer_id=5, producer_epoch=2, timestamp_ms=99)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert decode_marker(batch) == marker


@pytest.mark.parametrize("compression", list(Compression))
def test_aiokafka_reads_what_we_write_and_we_what_it_writes(compression: Compression) -> None:
    default_records: Any = pytest.importorskip("aiokafka.record.default_records")
    given_records = [
        Record(i, 1000 + i, b"key-%d" % i, b"value" * i, [("h", b"x"), ("n", None)])
        for i in range(50)
    ]
    ours = bytes(encode_batch(given_records, compression=compression))
    theirs = [
        Record(r.offset, r.timestamp, r.key, r.value, list(r.headers))
        for r in default_records.DefaultRecordBatch(ours)
    ]
    assert theirs == given_records
    builder = default_records.DefaultRecordBatchBuilder(
        2, int(compression), False, -1, -1, -1, 1 << 20
    )
    for r in given_records:
        builder.append(r.offset, r.timestamp, r.key, r.value, r.headers)
    assert decode_records(bytes(builder.build())) == given_records
