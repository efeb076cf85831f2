"""Sequences, epochs, duplicates, transactions and their snapshots."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from floodmark.records.batch import read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
)
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.testing.memory_files import MemoryFiles
from kit.retention import apply_retention

NOW_MS = 1_700_000_000_000
MAX_SEQUENCE = 2**31 - 1


class Sent(NamedTuple):
    """Where a batch lies, and whether it has been there before."""

    base_offset: int
    last_offset: int
    duplicate: bool


class Log:
    """A log on a memory disk, with a producer's calls."""

    def __init__(self, **settings: int) -> None:
        self.files = MemoryFiles()
        self.config = LogConfig(**settings)  # type: ignore[arg-type]
        self.log = self.open()

    def open(self, *, clean: bool = True) -> PartitionLog:
        return PartitionLog.open(
            self.files, Path("/logs/t-0"), self.config, now_ms=NOW_MS, clean=clean
        )

    def restart(self, *, clean: bool) -> None:
        self.log.close(NOW_MS, clean=clean)
        self.log = self.open(clean=clean)

    def send(
        self,
        sequence: int,
        *,
        count: int = 1,
        producer_id: int = 7,
        epoch: int = 0,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> Sent:
        batch = encode_batch(
            [Record(0, NOW_MS, b"k", b"v", [])] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        first = self.log.log_end_offset
        stored = self.log.append(batch, read_header(batch), 0, NOW_MS, origin=origin)
        if stored is None:
            return Sent(first, self.log.log_end_offset - 1, duplicate=False)
        assert self.log.log_end_offset == first, "a duplicate is not appended"
        return Sent(stored.base_offset, stored.last_offset, duplicate=True)

    def end(
        self,
        kind: ControlType,
        *,
        producer_id: int = 7,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        marker = encode_marker(
            EndTransactionMarker(kind, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW_MS,
        )
        self.log.append(
            marker,
            read_header(marker),
            0,
            NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )


def test_each_of_the_last_five_batches_is_answered_with_its_offset() -> None:
    it = Log()
    for sequence in range(0, 14, 2):
        it.send(sequence, count=2)
    for sequence in range(4, 14, 2):
        result = it.send(sequence, count=2)
        assert (result.base_offset, result.last_offset) == (sequence, sequence + 1)
        assert result.duplicate
    assert it.log.log_end_offset == 14
    with pytest.raises(OutOfOrderSequence):
        it.send(2, count=2)


def test_a_gap_is_refused_and_changes_nothing() -> None:
    it = Log()
    it.send(0)
    with pytest.raises(OutOfOrderSequence):
        it.send(2)
    assert it.send(1).base_offset == 1


def test_a_batch_of_another_size_at_a_known_sequence_is_no_duplicate() -> None:
    it = Log()
    it.send(0, count=3)
    with pytest.raises(OutOfOrderSequence):
        it.send(0, count=2)


def test_sequences_wrap_around() -> None:
    it = Log()
    it.send(MAX_SEQUENCE - 1, count=3)
    assert it.send(1).base_offset == 3
    assert it.send(MAX_SEQUENCE - 1, count=3).duplicate


def test_an_unknown_producer_may_begin_anywhere() -> None:
    it = Log()
    assert it.send(41).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    it = Log()
    it.send(0)
    with pytest.raises(OutOfOrderSequence):
        it.send(5, epoch=1)
    it.send(0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        it.send(1, epoch=0)


@pytest.mark.parametrize("clean", [True, False])
def test_sequences_survive_a_restart(clean: bool) -> None:
    it = Log()
    for sequence in range(8):
        it.send(sequence)
    it.restart(clean=clean)
    assert it.send(7).duplicate
    with pytest.raises(OutOfOrderSequence):
        it.send(9)
    assert it.send(8).base_offset == 8


def test_the_duplicate_cache_answers_after_retention_removed_the_segment() -> None:
    it = Log(segment_bytes=100, retention_bytes=0)
    it.send(0)
    it.send(1)
    apply_retention(it.log, NOW_MS, it.log.log_end_offset)
    assert it.log.log_start_offset == 2
    assert it.send(1) == Sent(1, 1, duplicate=True)
    it.restart(clean=True)
    assert it.send(1).duplicate


def test_state_is_kept_through_a_truncation() -> None:
    it = Log(segment_bytes=300)
    for sequence in range(9):
        it.send(sequence)
    it.log.truncate_to(4, NOW_MS)
    assert it.log.log_end_offset == 4
    with pytest.raises(OutOfOrderSequence):
        it.send(9)
    assert it.send(3).duplicate
    assert it.send(4).base_offset == 4


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    it = Log()
    it.send(0, producer_id=1)
    it.send(0, producer_id=2, transactional=True)
    it.log.producers.expire(NOW_MS + 86_399_999)
    assert set(it.log.producers.entries) == {1, 2}
    it.log.producers.expire(NOW_MS + 86_400_000)
    assert set(it.log.producers.entries) == {2}


def test_a_batch_outside_of_an_open_transaction_is_refused() -> None:
    it = Log()
    it.send(0, transactional=True)
    with pytest.raises(InvalidTransactionState):
        it.send(1)


@pytest.mark.parametrize("clean", [None, True, False])
def test_open_transactions_hold_the_last_stable_offset(clean: bool | None) -> None:
    it = Log()
    it.send(0, producer_id=1)
    it.send(0, producer_id=2, transactional=True)
    it.send(0, producer_id=3, transactional=True)
    it.send(1, producer_id=1)
    if clean is not None:
        it.restart(clean=clean)
    assert it.log.last_stable_offset(4) == 1
    it.end(ControlType.COMMIT, producer_id=2)
    # The marker at 4 is not replicated yet: it may still be lost.
    assert it.log.last_stable_offset(4) == 1
    assert it.log.last_stable_offset(5) == 2
    it.end(ControlType.ABORT, producer_id=3)
    assert it.log.last_stable_offset(6) == 6


@pytest.mark.parametrize("clean", [None, True, False])
def test_aborted_transactions_are_listed_for_what_they_touch(clean: bool | None) -> None:
    it = Log(segment_bytes=250)
    it.send(0, producer_id=1, transactional=True)
    it.send(0, producer_id=2, transactional=True)
    it.end(ControlType.ABORT, producer_id=1)
    it.end(ControlType.COMMIT, producer_id=2)
    it.send(1, producer_id=1, transactional=True)
    it.end(ControlType.ABORT, producer_id=1)
    if clean is not None:
        it.restart(clean=clean)
    first = AbortedTransaction(1, 0, 2, 1)
    second = AbortedTransaction(1, 4, 5, 6)
    assert it.log.aborted_transactions(0, 6) == [first, second]
    assert it.log.aborted_transactions(0, 2) == [first]
    assert it.log.aborted_transactions(3, 6) == [second]
    assert it.log.aborted_transactions(3, 4) == []


def test_a_broken_transaction_index_is_made_anew_from_the_log() -> None:
    it = Log(segment_bytes=250)
    it.send(0, transactional=True)
    it.end(ControlType.ABORT)
    for sequence in range(1, 6):
        it.send(sequence)
    expected = it.log.aborted_transactions(0, 9)
    it.log.close(NOW_MS)
    it.files.open(Path("/logs/t-0/00000000000000000000.txnindex")).append(b"half an entry")
    it.log = it.open()
    assert it.log.aborted_transactions(0, 9) == expected != []


def test_truncation_takes_aborts_back() -> None:
    it = Log()
    it.send(0, transactional=True)
    it.end(ControlType.ABORT)
    it.log.truncate_to(1, NOW_MS)
    assert it.log.aborted_transactions(0, 5) == []
    assert it.log.last_stable_offset(1) == 0


def test_old_coordinators_and_old_epochs_cannot_end_transactions() -> None:
    it = Log()
    it.send(0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        it.end(ControlType.COMMIT, epoch=2)
    it.end(ControlType.COMMIT, epoch=3, coordinator_epoch=5)
    with pytest.raises(CoordinatorFenced):
        it.end(ControlType.COMMIT, epoch=3, coordinator_epoch=4)


def test_markers_of_version_two_need_a_larger_epoch_but_may_be_repeated() -> None:
    it = Log()
    it.send(0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        it.end(ControlType.COMMIT, epoch=3, transaction_version=2)
    it.end(ControlType.COMMIT, epoch=4, transaction_version=2)
    it.end(ControlType.COMMIT, epoch=4, transaction_version=2)
    with pytest.raises(InvalidProducerEpoch):
        it.send(1, epoch=3, transactional=True)
    it.send(0, epoch=4, transactional=True)


def test_coordinators_append_without_sequences_but_not_with_an_old_epoch() -> None:
    it = Log()
    it.send(-1, epoch=2, transactional=True, origin=AppendOrigin.COORDINATOR)
    it.send(-1, epoch=2, transactional=True, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(InvalidProducerEpoch):
        it.send(-1, epoch=1, transactional=True, origin=AppendOrigin.COORDINATOR)


def test_snapshots_round_trip_and_a_flipped_bit_is_found() -> None:
    it = Log()
    it.send(0, producer_id=1)
    it.send(5, producer_id=2, transactional=True)
    it.end(ControlType.COMMIT, producer_id=3, coordinator_epoch=9)
    data = encode_snapshot(it.log.producers.entries.values())
    entries = {entry.producer_id: entry for entry in decode_snapshot(data)}
    assert (entries[1].last_sequence, entries[1].last_offset) == (0, 0)
    assert entries[2].transaction_first_offset == 1
    assert (entries[3].coordinator_epoch, entries[3].last_offset) == (9, -1)
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 1
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(broken))


def test_a_broken_snapshot_is_replaced_by_a_replay() -> None:
    it = Log()
    for sequence in range(3):
        it.send(sequence)
    it.log.close(NOW_MS)
    it.files.flip_bit(Path("/logs/t-0/00000000000000000003.snapshot"), 20)
    it.log = it.open()
    assert it.send(0).duplicate
    assert it.send(3).base_offset == 3


def test_a_follower_keeps_the_same_state_as_its_leader() -> None:
    leader = Log()
    leader.send(0, producer_id=1)
    leader.send(0, producer_id=2, transactional=True)
    leader.end(ControlType.ABORT, producer_id=2)
    found = leader.log.read(0, 1 << 20, end_offset=3)
    assert found is not None
    follower = Log()
    follower.log.append_as_follower(found.read(), NOW_MS)
    assert follower.log.log_end_offset == 3
    assert follower.log.aborted_transactions(0, 3) == leader.log.aborted_transactions(0, 3)
    assert encode_snapshot(follower.log.producers.entries.values()) == encode_snapshot(
        leader.log.producers.entries.values()
    )


def test_retention_takes_no_batch_whose_producer_a_power_loss_would_forget() -> None:
    it = Log(segment_bytes=300, retention_ms=1)
    it.files.fsync_dir(Path("/"))  # the log folder's own name
    for sequence in range(4):
        it.send(sequence)
    it.log.fsync()
    retired = apply_retention(it.log, NOW_MS + 10, it.log.log_end_offset)
    assert retired is not None
    it.log.fsync()
    retired.remove()
    recovery_point, log_start_offset = it.log.recovery_point, it.log.log_start_offset
    assert log_start_offset == 4
    disk = it.files
    for seed in range(100):
        it.files = disk.crash(Random(seed))
        it.log = PartitionLog.open(
            it.files,
            Path("/logs/t-0"),
            it.config,
            now_ms=NOW_MS,
            clean=False,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )
        assert it.send(3).duplicate
