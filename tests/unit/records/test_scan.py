"""Walking through records: the same verdict as decoding them, and bounds on what is walked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.records.batch import HEADER, BatchHeader, read_header
from floodmark.records.compression import Compression
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.limits import HEADERS_OF_A_RECORD, ITEMS, STEP_BYTES, UNPACKED_BYTES
from floodmark.records.record import Record, decode_records, encode_batch, iter_records
from floodmark.records.scan import Noted, Scanned, scan_records
from floodmark.records.validation import ProduceRules, validate_deeply
from floodmark.steps import Unfinished, begin, finish

NOW_MS = 1_700_000_000_000
maybe_bytes = st.none() | st.binary(max_size=300)
records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**45),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def scanned(batch: bytes | bytearray, **options: Any) -> tuple[list[Noted], Scanned]:
    noted: list[Noted] = []
    scan = scan_records(batch, read_header(batch), **options)
    while True:
        try:
            noted += next(scan)
        except StopIteration as end:
            return noted, end.value


@given(records, st.sampled_from(Compression))
def test_a_scan_sees_what_decoding_sees(given: list[Record], compression: Compression) -> None:
    batch = encode_batch(given, compression=compression)
    noted, end = scanned(batch, latest_ms=-1)
    assert [(n.offset_delta, n.timestamp, n.has_key) for n in noted] == [
        (record.offset, record.timestamp, record.key is not None)
        for record in decode_records(batch)
    ]
    assert end.largest_timestamp == max(record.timestamp for record in given)
    assert list(iter_records(batch)) == decode_records(batch)


@given(st.data(), st.sampled_from(Compression))
def test_a_scan_and_decoding_refuse_the_same_bytes(
    data: st.DataObject, compression: Compression
) -> None:
    some = [Record(0, NOW_MS, b"key", bytes(50), [("a", b"b")])] * 3
    batch = encode_batch(some, compression=Compression.NONE)
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    verdicts = []
    for look in (decode_records, scanned, lambda damaged: list(iter_records(damaged))):
        try:
            look(batch)
            verdicts.append(True)
        except CorruptRecord:
            verdicts.append(False)
    assert len(set(verdicts)) == 1


@pytest.mark.parametrize("compression", list(Compression))
def test_records_larger_than_a_step_and_between_steps_are_whole(compression: Compression) -> None:
    sizes = [10, STEP_BYTES * 3, 7, STEP_BYTES - 20, STEP_BYTES, 1] * 3
    given = [Record(n, NOW_MS + n, b"k", bytes(size), []) for n, size in enumerate(sizes)]
    batch = encode_batch(given, compression=compression)
    assert list(iter_records(batch)) == decode_records(batch) == given
    assert scanned(batch, note_gaps=True) == ([], Scanned(NOW_MS + len(sizes) - 1, _size(batch)))


def _size(batch: bytearray) -> int:
    whole = encode_batch(decode_records(batch))
    return len(whole) - 61


def claiming(batch: bytearray, count: int) -> bytearray:
    header: BatchHeader = read_header(batch)
    claimed = header._replace(records_count=count, last_offset_delta=count - 1)
    HEADER.pack_into(batch, 0, *claimed)
    return batch


def too_large() -> Iterator[tuple[str, bytearray]]:
    tiny = [Record(0, NOW_MS, b"", b"", [])]
    zstd = Compression.ZSTD
    yield "records", encode_batch(tiny * (ITEMS + 1), compression=zstd)
    yield "claimed records", claiming(encode_batch(tiny, compression=zstd), ITEMS + 1)
    headers = [("", b"")] * (HEADERS_OF_A_RECORD + 1)
    yield "headers", encode_batch([Record(0, NOW_MS, b"", b"", headers)], compression=zstd)
    value = bytes(UNPACKED_BYTES)
    yield "bytes", encode_batch([Record(0, NOW_MS, b"", value, [])], compression=zstd)


@pytest.mark.parametrize("batch", [pytest.param(b, id=what) for what, b in too_large()])
def test_more_than_a_batch_may_hold_is_too_large(batch: bytearray) -> None:
    with pytest.raises(DecompressionTooLarge):
        scanned(batch)


def test_no_batch_without_compression_has_too_many_records() -> None:
    batch = encode_batch([Record(0, NOW_MS, None, None, [])] * (ITEMS + 1))
    assert scanned(batch)[0] == []


def test_long_work_pauses_and_compression_is_left_to_a_thread() -> None:
    given = [Record(n, NOW_MS, b"k", bytes(100), []) for n in range(9_000)]
    batch = memoryview(encode_batch(given))
    rules = ProduceRules(compression=Compression.GZIP)
    steps = validate_deeply(batch, rules, NOW_MS)
    pauses = 0
    while (aside := next(steps)) is None:
        pauses += 1
    assert pauses > len(batch) // STEP_BYTES
    with pytest.raises(StopIteration) as end:
        steps.send(aside())
    assert decode_records(end.value.value.batch) == given
    assert finish(validate_deeply(batch, rules, NOW_MS)).batch == end.value.value.batch


def test_work_is_done_at_once_only_within_its_budget() -> None:
    times = iter(range(1000))
    batch = memoryview(encode_batch([Record(0, NOW_MS, b"k", bytes(10 * STEP_BYTES), [])]))
    rules = ProduceRules(is_compacted=True)
    work = begin(validate_deeply(batch, rules, NOW_MS), lambda: next(times), 5)
    assert isinstance(work, Unfinished)
    assert finish(work.steps).rules is rules
    assert not isinstance(begin(validate_deeply(batch, rules, NOW_MS), lambda: 0, 5), Unfinished)
    assert isinstance(begin(validate_deeply(batch, rules, NOW_MS), lambda: 0, 0), Unfinished)
