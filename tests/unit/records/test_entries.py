"""A coordinator's batches have the bytes that any other batch of these records has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.records.compression import Compression
from floodmark.records.entries import encode_entries
from floodmark.records.record import Record, encode_batch

NOW_MS = 1_700_000_000_000
ENTRIES = st.lists(
    st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=9000)), min_size=1
)


@given(ENTRIES, st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)))
def test_entries_are_a_batch_of_records_without_headers(
    entries: list[tuple[bytes, bytes | None]], producer: tuple[int, int] | None
) -> None:
    records = [Record(0, NOW_MS, key, value, []) for key, value in entries]
    expected = encode_batch(records)
    if producer is not None:
        producer_id, producer_epoch = producer
        expected = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
        )
    assert encode_entries(entries, NOW_MS, transactional_producer=producer) == expected


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_entries_may_be_compressed(compression: Compression) -> None:
    entries: list[tuple[bytes, bytes | None]] = [(b"key", b"value" * 100), (b"gone", None)]
    records = [Record(0, NOW_MS, key, value, []) for key, value in entries]
    assert encode_entries(entries, NOW_MS, compression=compression) == encode_batch(
        records, compression=compression
    )
