"""Transactional records are appended under a verification that no marker overtook (KIP-890)."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.storage.producers.transaction_guards import AppendGuard, Unguarded
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
PRODUCER_ID = 7


class Log:
    def __init__(self) -> None:
        self.log = PartitionLog.open(
            MemoryFiles(), Path("/logs/t-0"), LogConfig(), now_ms=NOW_MS, clean=True
        )

    def verify(
        self, sequence: int = 0, *, epoch: int = 0, second_version: bool = False
    ) -> AppendGuard:
        return self.log.producers.start_verification(
            PRODUCER_ID, epoch, sequence, NOW_MS, bumps_epoch=second_version
        )

    def send(
        self,
        guard: AppendGuard,
        sequence: int = 0,
        *,
        epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> bool:
        """Whether it was new."""
        batch = encode_batch(
            [Record(0, NOW_MS, b"k", b"v", [])],
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        header = read_header(batch)
        return self.log.append(batch, header, 0, NOW_MS, origin=origin, guard=guard) is None

    def mark(self, *, epoch: int = 0, version: int = 0, as_follower: bool = False) -> None:
        marker = encode_marker(
            EndTransactionMarker(ControlType.ABORT, 0),
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            timestamp_ms=NOW_MS,
        )
        if as_follower:
            marker[:8] = self.log.log_end_offset.to_bytes(8, "big")
            self.log.append_as_follower(marker, NOW_MS)
            return
        self.log.append(
            marker,
            read_header(marker),
            0,
            NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=version,
        )


@pytest.mark.parametrize("origin", AppendOrigin)
@pytest.mark.parametrize("as_follower", [False, True])
def test_a_marker_takes_back_the_guards_of_its_producer(
    origin: AppendOrigin, as_follower: bool
) -> None:
    it = Log()
    guard = it.verify()
    it.mark(as_follower=as_follower)
    with pytest.raises(InvalidTransactionState):
        it.send(guard, origin=origin)
    again = it.verify()
    with pytest.raises(InvalidTransactionState):
        it.send(guard, origin=origin)
    assert it.send(again, origin=origin)


def test_an_open_transaction_needs_no_guard_until_it_ends() -> None:
    it = Log()
    assert it.send(it.verify())
    assert it.verify(1) is Unguarded.MUST_BE_OPEN
    assert it.send(Unguarded.MUST_BE_OPEN, 1)
    it.mark()
    with pytest.raises(InvalidTransactionState):
        it.send(Unguarded.MUST_BE_OPEN, 2)


def test_a_repeat_is_answered_after_the_end_of_its_transaction() -> None:
    it = Log()
    it.send(it.verify())
    it.mark()
    assert not it.send(Unguarded.MUST_BE_OPEN)


def test_requests_that_wait_together_share_a_guard() -> None:
    it = Log()
    first, second = it.verify(0), it.verify(1)
    assert it.send(first, 0)
    assert it.send(second, 1)


def test_of_batches_that_wait_together_the_later_does_not_go_first() -> None:
    it = Log()
    second, first = it.verify(1), it.verify(0)
    with pytest.raises(OutOfOrderSequence):
        it.send(second, 1)
    assert it.send(first, 0)
    assert it.send(second, 1)


def test_an_old_epoch_is_refused_before_anybody_is_asked() -> None:
    it = Log()
    it.send(it.verify(epoch=3), epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        it.verify(epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        it.send(Unguarded.MUST_BE_OPEN, epoch=2)


def test_the_marker_of_the_last_transaction_spares_the_guard_of_the_next() -> None:
    """In the second version it carries the epoch of the next, which may be verified already."""
    it = Log()
    it.send(it.verify(second_version=True))
    following = it.verify(epoch=1, second_version=True)
    it.mark(epoch=1, version=2)
    assert it.send(following, epoch=1)


def test_the_marker_of_a_transaction_of_the_second_version_takes_back_its_guard() -> None:
    it = Log()
    guard = it.verify(second_version=True)
    it.mark(epoch=1, version=2)
    with pytest.raises(InvalidProducerEpoch):
        it.send(guard)
    with pytest.raises(InvalidTransactionState):
        it.send(guard, epoch=1)


@pytest.mark.parametrize("is_known_by_marker", [False, True])
def test_a_transaction_of_the_second_version_begins_with_sequence_0(
    is_known_by_marker: bool,
) -> None:
    it = Log()
    if is_known_by_marker:
        it.mark(version=2)
    guard = it.verify(5, second_version=True)
    with pytest.raises(OutOfOrderSequence):
        it.send(guard, 5)
    assert it.send(it.verify(0, second_version=True), 0)


def test_a_transaction_of_the_first_version_may_begin_anywhere_without_state() -> None:
    it = Log()
    assert it.send(it.verify(5), 5)


def test_guards_expire_with_their_producers_and_go_with_a_truncation() -> None:
    it = Log()
    guard = it.verify()
    it.log.producers.expire(NOW_MS + it.log.producers.expiration_ms - 1)
    assert it.verify() is guard
    it.log.producers.expire(NOW_MS + it.log.producers.expiration_ms)
    assert it.verify() is not guard
    it.log.truncate_fully_and_start_at(10, NOW_MS)
    assert not it.log.producers.guards
