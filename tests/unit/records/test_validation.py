"""What clients may append, and the error code for what they may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floodmark.records.batch import (
    HEADER,
    BatchHeader,
    TimestampType,
    compute_crc,
    crc_ok,
    read_header,
    writable,
)
from floodmark.records.compression import Compression
from floodmark.records.errors import InvalidBatch
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.records.validation import (
    NO_LIMIT_MS,
    ProduceRules,
    ValidatedBatch,
    validate_deeply,
    validate_produce,
)
from floodmark.steps import finish
from floodmark.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
GOOD = [Record(0, NOW_MS, b"k", b"v", []), Record(0, NOW_MS + 1, b"k2", None, [])]


def changed(change: Callable[[BatchHeader], BatchHeader]) -> bytearray:
    """A good batch with another header and a checksum to match."""
    batch = encode_batch(GOOD)
    HEADER.pack_into(batch, 0, *change(read_header(batch)))
    batch[17:21] = compute_crc(batch, 0, len(batch)).to_bytes(4, "big")
    return batch


def validated(buffer: bytes | bytearray | memoryview, rules: ProduceRules) -> ValidatedBatch:
    return finish(validate_deeply(memoryview(buffer), rules, NOW_MS))


def refusal(buffer: bytes | bytearray, rules: ProduceRules | None = None) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        validated(buffer, rules or ProduceRules())
    return caught.value.error_code


def test_a_timestamp_that_no_header_can_hold_is_refused() -> None:
    rules = ProduceRules(timestamp_after_max_ms=NO_LIMIT_MS, compression=Compression.GZIP)
    # The second record's is one more than the first's.
    batch = changed(lambda header: header._replace(base_timestamp=(1 << 63) - 1))
    assert refusal(batch, rules) is ErrorCode.INVALID_TIMESTAMP


def test_a_good_batch_gives_its_header() -> None:
    batch = encode_batch(GOOD)
    assert validate_produce(memoryview(batch), ProduceRules(), NOW_MS) == read_header(batch)
    assert validated(batch, ProduceRules()).batch.obj is batch


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda h: h._replace(base_offset=5), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(base_offset=-1), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(records_count=3), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(attributes=0x20), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(attributes=0x05), ErrorCode.CORRUPT_MESSAGE),
        (lambda h: h._replace(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
        (lambda h: h._replace(attributes=0x10), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(magic=1), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(batch_length=h.batch_length + 1), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(batch_length=h.batch_length - 1), ErrorCode.INVALID_RECORD),
        (lambda h: h._replace(batch_length=-5), ErrorCode.CORRUPT_MESSAGE),
        (lambda h: h._replace(max_timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_bad_header_is_refused(
    change: Callable[[BatchHeader], BatchHeader], expected: ErrorCode
) -> None:
    assert refusal(changed(change)) == expected


def test_no_batch_two_batches_and_garbage_are_refused() -> None:
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(encode_batch(GOOD) * 2) == ErrorCode.INVALID_RECORD
    assert refusal(b"\xff" * 30) == ErrorCode.CORRUPT_MESSAGE


def test_a_flipped_bit_is_a_corrupt_message() -> None:
    batch = encode_batch(GOOD)
    batch[-1] ^= 1
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE


def test_max_message_bytes_counts_the_whole_batch() -> None:
    batch = encode_batch(GOOD)
    validated(batch, ProduceRules(max_message_bytes=len(batch)))
    assert (
        refusal(batch, ProduceRules(max_message_bytes=len(batch) - 1))
        == ErrorCode.MESSAGE_TOO_LARGE
    )


def test_a_compacted_topic_refuses_records_without_a_key_and_names_them() -> None:
    batch = encode_batch([*GOOD, Record(0, NOW_MS, None, b"v", [])])
    with pytest.raises(InvalidBatch) as caught:
        validated(batch, ProduceRules(is_compacted=True))
    assert caught.value.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [2]


def test_old_records_are_refused_where_the_topic_bounds_them() -> None:
    rules = ProduceRules(timestamp_before_max_ms=1000)
    batch = encode_batch([GOOD[0], Record(0, NOW_MS - 1001, b"k", b"v", [])])
    assert refusal(batch, rules) == ErrorCode.INVALID_TIMESTAMP
    validated(encode_batch([Record(0, -1, b"k", b"v", [])]), rules)


def test_the_full_check_finds_broken_records_behind_a_good_checksum() -> None:
    batch = encode_batch(GOOD)
    batch[61] = 0
    batch[17:21] = compute_crc(batch, 0, len(batch)).to_bytes(4, "big")
    validated(batch, ProduceRules())
    assert refusal(batch, ProduceRules(check_records=True)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_a_topic_compression_repacks_the_batch(source: Compression, target: Compression) -> None:
    batch = encode_batch(
        GOOD,
        compression=source,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        is_transactional=True,
    )
    rules = ProduceRules(compression=target)
    buffer, header = validated(batch, rules).stamped(NOW_MS)
    assert header == read_header(buffer)
    assert crc_ok(buffer, 0, header)
    assert header.compression is target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 3)
    assert header.is_transactional
    assert decode_records(buffer) == decode_records(batch)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_log_append_time_is_stamped_into_the_batch(kind: type) -> None:
    batch = writable(kind(encode_batch(GOOD)))
    rules = ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
    buffer, header = validated(batch, rules).stamped(NOW_MS + 9)
    assert header.max_timestamp == NOW_MS + 9
    assert crc_ok(buffer, 0, header)
    assert [r.timestamp for r in decode_records(buffer)] == [NOW_MS + 9] * 2
