"""What a consumer sees of the bytes that a fetch brought."""

import pytest

from floodmark.client.consumer.fetched_records import FetchedRecords
from floodmark.client.errors import KafkaError
from floodmark.records.compression import Compression
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.wire.errors import ErrorCode


def batch(
    base_offset: int, *values: bytes, producer_id: int = -1, compression: int = 0
) -> bytearray:
    return encode_batch(
        [Record(0, 1_000 + i, None, value, []) for i, value in enumerate(values)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
        compression=Compression(compression),
    )


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytearray:
    return encode_marker(
        EndTransactionMarker(control_type, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1,
        base_offset=offset,
    )


def values(fetched: FetchedRecords, limit: int = 100) -> list[bytes | None]:
    return [record.value for record in fetched.take(limit)]


def test_records_before_the_position_are_skipped() -> None:
    fetched = FetchedRecords(batch(10, b"a", b"b", b"c", compression=4), 11)
    assert [record.offset for record in fetched.take(10)] == [11, 12]
    assert fetched.position == 13


def test_take_gives_at_most_what_is_asked_and_goes_on_later() -> None:
    fetched = FetchedRecords(batch(0, b"a", b"b") + batch(2, b"c"), 0)
    assert values(fetched, 1) == [b"a"]
    assert (fetched.position, fetched.exhausted) == (1, False)
    assert values(fetched, 5) == [b"b", b"c"]
    assert (fetched.position, fetched.exhausted) == (3, True)


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    fetched = FetchedRecords(batch(0, b"a") + batch(1, b"b")[:-1], 0)
    assert values(fetched) == [b"a"]
    assert fetched.position == 1


def test_control_batches_move_the_position_but_are_not_seen() -> None:
    data = batch(0, b"a", producer_id=7) + marker(1, 7, ControlType.COMMIT)
    fetched = FetchedRecords(data, 0)
    assert values(fetched) == [b"a"]
    assert fetched.position == 2


def test_aborted_records_are_skipped_until_their_abort_marker() -> None:
    data = (
        batch(0, b"aborted", producer_id=7)
        + batch(1, b"other", producer_id=8)
        + marker(2, 7, ControlType.ABORT)
        + batch(3, b"next transaction", producer_id=7)
        + batch(4, b"plain")
    )
    fetched = FetchedRecords(data, 0, aborted=[(0, 7)])
    assert values(fetched) == [b"other", b"next transaction", b"plain"]


def test_a_wrong_checksum_is_an_error_unless_it_is_not_checked() -> None:
    data = batch(0, b"abc")
    data[-2] ^= 1
    with pytest.raises(KafkaError) as caught:
        FetchedRecords(data, 0).take(1)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert values(FetchedRecords(data, 0, check_crcs=False)) != [b"abc"]


def test_records_before_a_broken_batch_are_given_and_none_behind_it() -> None:
    broken = batch(2, b"broken")
    broken[-2] ^= 1
    fetched = FetchedRecords(batch(0, b"a", b"b") + broken + batch(3, b"c"), 0)
    assert values(fetched) == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(KafkaError):
            fetched.take(1)
    assert (fetched.position, fetched.exhausted) == (2, False)
