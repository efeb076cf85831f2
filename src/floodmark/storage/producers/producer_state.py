"""Each producer's last writes to a partition: sequences, epochs and open transactions.

Called by partition_log.py: `check` before writing a batch, `update` after it. Detects duplicates of
the last five batches, even after retention has removed them from the log.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from floodmark.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from floodmark.records.control import ControlType, EndTransactionMarker
from floodmark.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from floodmark.storage.producers.transaction_guards import AppendGuard, TransactionGuard, Unguarded
from floodmark.vocabulary import NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE

# A producer may have five requests in flight, so any of the last five batches may be repeated.
BATCHES_KEPT: Final = 5
_MAX_SEQUENCE: Final = (1 << 31) - 1
_MAX_PRODUCER_EPOCH: Final = (1 << 15) - 1


class AppendOrigin(Enum):
    """Who appends, and thus what is checked: clients fully, coordinators by epoch."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    """One producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "has_expired",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        # Replayed from a log that may lack its last batches, because they were no longer needed:
        # its next sequence is unknown.
        self.has_expired = False
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def check_epoch(self, producer_epoch: int) -> None:
        if producer_epoch < self.producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {self.producer_id} sent epoch {producer_epoch}, "
                f"the last one seen is {self.producer_epoch}"
            )

    def refuse_unless_expired(self, header: BatchHeader, expected: int) -> None:
        """Like Kafka, accepts any sequence of an expired producer, once it has been noticed."""
        if not self.has_expired:
            raise OutOfOrderSequence(
                f"producer {self.producer_id} sent sequence {header.base_sequence} in epoch "
                f"{header.producer_epoch}, expected {expected}"
            )

    def has_open_transaction(self, producer_epoch: int) -> bool:
        return self.transaction_first_offset != NO_OFFSET and self.producer_epoch == producer_epoch

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = (header.base_sequence + header.last_offset_delta) & _MAX_SEQUENCE
        for batch in self.batches:
            if (
                batch.last_sequence == last_sequence
                and batch.offset_delta == header.last_offset_delta
            ):
                return batch
        return None


class ProducerState:
    """All producers of a partition, and the transactions that hold the last stable offset back."""

    __slots__ = ("end_offset", "entries", "expiration_ms", "guards", "ongoing", "unreplicated")

    def __init__(self, expiration_ms: int = 86_400_000) -> None:
        self.expiration_ms = expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        # First offset -> producer id of open transactions, in the order of their first offsets.
        self.ongoing: dict[int, int] = {}
        # First offset -> marker offset of ended transactions that the high watermark has not passed
        # yet: until then their end may be lost.
        self.unreplicated: dict[int, int] = {}
        # Producer id -> the verification of a transaction that has no records here yet.
        self.guards: dict[int, TransactionGuard] = {}
        # While rebuilding the state from the log: the progress.
        self.end_offset = 0

    def start_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        now_ms: int,
        *,
        bumps_epoch: bool,
    ) -> AppendGuard:
        """The guard for a transactional batch whose transaction must be verified now.

        MUST_BE_OPEN if the transaction is already open here, so that there is nothing to verify.
        Raises InvalidProducerEpoch for a batch that cannot be appended in any case.
        """
        entry = self.entries.get(producer_id)
        if entry is not None:
            entry.check_epoch(producer_epoch)
            if entry.has_open_transaction(producer_epoch):
                return Unguarded.MUST_BE_OPEN
        guard = self.guards.get(producer_id)
        if guard is None:
            guard = TransactionGuard(producer_epoch, base_sequence, now_ms, bumps_epoch)
            self.guards[producer_id] = guard
        else:
            guard.include(producer_epoch, base_sequence)
        return guard

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: AppendGuard = Unguarded.NOT_CHECKED,
    ) -> BatchMetadata | None:
        """The stored batch if this one is a duplicate, None if it may be appended. Otherwise raises
        AppendRefused."""
        entry = self.entries.get(header.producer_id)
        if self.guards or header.attributes & TRANSACTIONAL_BIT:
            if entry is not None:
                if origin is AppendOrigin.CLIENT:
                    duplicate = entry.find_duplicate(header)
                    if duplicate is not None:
                        return duplicate
                # Check this first: clients recover from an old epoch.
                entry.check_epoch(header.producer_epoch)
            self._check_guard(entry, header, guard)
            if origin is AppendOrigin.CLIENT:
                self._check_first_sequence(entry, header)
        if entry is None:
            # No state, perhaps because it expired: Kafka then accepts any sequence.
            return None
        if origin is AppendOrigin.CLIENT:
            batches = entry.batches
            producer_epoch = entry.producer_epoch
            base_sequence = header.base_sequence
            if header.producer_epoch == producer_epoch and batches:
                expected = (batches[-1].last_sequence + 1) & _MAX_SEQUENCE
                if base_sequence != expected:
                    duplicate = entry.find_duplicate(header)
                    if duplicate is not None:
                        return duplicate
                    entry.refuse_unless_expired(header, expected)
            elif header.producer_epoch != producer_epoch:
                entry.check_epoch(header.producer_epoch)
                if base_sequence != 0 and producer_epoch != NO_PRODUCER_EPOCH:
                    entry.refuse_unless_expired(header, 0)
            elif base_sequence != 0:
                # The epoch is known only from a marker: its first batch starts at 0.
                entry.refuse_unless_expired(header, 0)
        else:
            entry.check_epoch(header.producer_epoch)
        if entry.transaction_first_offset != NO_OFFSET and not (
            header.attributes & TRANSACTIONAL_BIT
        ):
            raise InvalidTransactionState(
                f"producer {header.producer_id} has an open transaction since offset "
                f"{entry.transaction_first_offset} but sent a batch outside it"
            )
        return None

    def _check_guard(
        self, entry: ProducerEntry | None, header: BatchHeader, guard: AppendGuard
    ) -> None:
        """Records of a transaction that is not open here need a verification that still holds."""
        if not header.attributes & TRANSACTIONAL_BIT or guard is Unguarded.NOT_CHECKED:
            return
        if entry is not None and entry.has_open_transaction(header.producer_epoch):
            return
        if guard is Unguarded.MUST_BE_OPEN or guard is not self.guards.get(header.producer_id):
            raise InvalidTransactionState(
                f"the transaction of producer {header.producer_id} has ended, or this partition "
                "was never part of it"
            )

    def _check_first_sequence(self, entry: ProducerEntry | None, header: BatchHeader) -> None:
        """What may come first in a transaction that is being verified."""
        guard = self.guards.get(header.producer_id)
        if guard is None:
            return
        sequence = header.base_sequence
        if guard.bumps_epoch and sequence != 0 and (entry is None or not entry.batches):
            # Every epoch of the second version starts at 0, even after the state expired.
            expected = 0
        elif sequence > guard.lowest_sequence:
            expected = guard.lowest_sequence
        else:
            return
        raise OutOfOrderSequence(
            f"producer {header.producer_id} began with sequence {sequence}, expected {expected}"
        )

    def check_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
    ) -> None:
        """Raises AppendRefused unless a coordinator's marker may be appended.

        Since transaction version 2 each transaction has its own epoch (KIP-890), so a marker has a
        higher epoch than the data. An equal one is accepted only as a duplicate of a written
        marker.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        repeat = header.producer_epoch == entry.producer_epoch and (
            entry.transaction_first_offset == NO_OFFSET
            or header.producer_epoch == _MAX_PRODUCER_EPOCH
        )
        too_old = header.producer_epoch < entry.producer_epoch or (
            transaction_version >= 2
            and header.producer_epoch == entry.producer_epoch
            and not repeat
        )
        if too_old:
            raise InvalidProducerEpoch(
                f"marker of producer {header.producer_id} has epoch {header.producer_epoch}, "
                f"the last one seen is {entry.producer_epoch}"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(
                f"marker of producer {header.producer_id} has coordinator epoch "
                f"{marker.coordinator_epoch}, the last one seen is {entry.coordinator_epoch}"
            )

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Records a data batch written at this offset."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        batches = entry.batches
        if header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            batches.clear()
        offset_delta = header.last_offset_delta
        base_sequence = header.base_sequence
        last_sequence = (
            NO_SEQUENCE
            if base_sequence == NO_SEQUENCE
            else (base_sequence + offset_delta) & _MAX_SEQUENCE
        )
        timestamp = header.max_timestamp
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(
            BatchMetadata(last_sequence, base_offset + offset_delta, offset_delta, timestamp)
        )
        entry.last_timestamp = timestamp
        entry.has_expired = False
        if header.attributes & TRANSACTIONAL_BIT and not header.attributes & CONTROL_BIT:
            self.guards.pop(producer_id, None)
            if entry.transaction_first_offset == NO_OFFSET:
                entry.transaction_first_offset = base_offset
                self.ongoing[base_offset] = producer_id

    def update_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """Records a written marker. Returns the ended transaction, if it had data here."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        guard = self.guards.get(producer_id)
        if guard is not None and not guard.outlives_marker(header.producer_epoch):
            del self.guards[producer_id]
        first_offset = entry.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        entry.transaction_first_offset = NO_OFFSET
        is_aborted = marker.control_type is ControlType.ABORT
        return CompletedTransaction(producer_id, first_offset, offset, is_aborted)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset if the high watermark were at the end."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        self.ongoing.pop(completed.first_offset, None)
        self.unreplicated[completed.first_offset] = completed.last_offset

    def forget_replicated(self, high_watermark: int) -> None:
        """The high watermark may have passed the end of some transactions. Called by the owners of
        the log, too, because nobody may ever read it."""
        done = [first for first, last in self.unreplicated.items() if last < high_watermark]
        for first_offset in done:
            del self.unreplicated[first_offset]

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open or whose end is not replicated yet."""
        if self.unreplicated:
            self.forget_replicated(high_watermark)
        first = min(self.unreplicated, default=None)
        if self.ongoing:
            oldest = next(iter(self.ongoing))
            return oldest if first is None else min(first, oldest)
        return first

    def expire(self, now_ms: int) -> None:
        """Drops producers that have been silent for producer.id.expiration.ms and have no open
        transaction."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        for producer_id, guard in list(self.guards.items()):
            if now_ms - guard.started_ms >= self.expiration_ms:
                del self.guards[producer_id]

    def note_expired(self, now_ms: int) -> None:
        """After a replay: cleaning and retention may remove the last batch of an expired producer.

        What is left still identifies its duplicates.
        """
        for entry in self.entries.values():
            entry.has_expired = self.is_expired(entry, now_ms)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= self.expiration_ms
        )

    def clear(self, end_offset: int) -> None:
        self.entries.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.guards.clear()
        self.end_offset = end_offset

    def load(self, entries: list[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Replaces the state by a snapshot's, without entries that have expired since."""
        self.clear(end_offset)
        for entry in entries:
            if not self.is_expired(entry, now_ms):
                self.entries[entry.producer_id] = entry
        opened = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.transaction_first_offset != NO_OFFSET
        ]
        self.ongoing = dict(sorted(opened))
