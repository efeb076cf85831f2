"""A transactional id and its current transaction: stored state and transitions. PURE.

A `Transaction` never changes. Each transition returns the next one, which `shard.py` writes to the
log and puts in its place. Producer epochs follow KIP-360 and, for clients of transaction version 2,
KIP-890: every transaction ends with a new epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from floodmark.coordinators.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEXT_STATES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)
from floodmark.invariant import InvariantViolation
from floodmark.vocabulary import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from floodmark.wire.errors import ErrorCode

Outcomes: TypeAlias = dict[TopicPartition, ErrorCode]

NOT_STARTED_MS: Final = -1
MAX_PRODUCER_EPOCH: Final = 32767
# Clients never get the last epoch: it is reserved for fencing them.
EXHAUSTED_PRODUCER_EPOCH: Final = MAX_PRODUCER_EPOCH - 1
# Epochs rise with every transaction (KIP-890).
EPOCH_BUMP_VERSION: Final = 2
# A timeout that never expires: the transaction of an external two-phase commit.
NO_TIMEOUT_MS: Final = 2**31 - 1

_NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


def is_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EXHAUSTED_PRODUCER_EPOCH


class Transaction(NamedTuple):
    """`previous_producer_id` was used before the last change; `next_producer_id` is reserved for a
    client whose epochs ran out. `last_producer_epoch` is not in the log: as in Kafka, a new
    coordinator does not know it."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = _NO_PARTITIONS
    start_ms: int = NOT_STARTED_MS
    client_version: int = 0

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_committing(self) -> bool:
        return self.state is PREPARE_COMMIT

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the transactional id has been unused long enough to be removed."""
        return (
            self.state is not ONGOING
            and self.state not in PREPARED
            and self.last_update_ms <= now_ms - expiration_ms
        )

    def with_epoch(
        self, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer starts or restarts: no transaction, a new epoch."""
        return self._move(
            EMPTY,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=_NO_PARTITIONS,
            start_ms=NOT_STARTED_MS,
            last_update_ms=now_ms,
        )

    def with_new_producer_id(
        self, producer_id: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Replaces a producer id whose epochs are used up."""
        return self.with_epoch(0, last_producer_epoch, timeout_ms, now_ms)._replace(
            producer_id=producer_id
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        return self._move(
            ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, committed: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """The outcome is decided.

        In version 2 its markers carry the next epoch, so that late records of this transaction are
        refused wherever a marker was written (KIP-890).
        """
        producer_epoch, last_producer_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            last_producer_epoch = producer_epoch
            producer_epoch = min(producer_epoch + 1, MAX_PRODUCER_EPOCH)
        return self._move(
            PREPARE_COMMIT if committed else PREPARE_ABORT,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, *, server_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Aborts for a producer that is gone, under an epoch that it never had."""
        if server_version >= EPOCH_BUMP_VERSION:
            return self.prepared(
                committed=False,
                client_version=server_version,
                next_producer_id=next_producer_id,
                now_ms=now_ms,
            )
        prepared = self.prepared(
            committed=False, client_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )
        return prepared._replace(
            producer_epoch=min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        producer_id, producer_epoch = self.promised()
        return self._move(
            COMPLETE_COMMIT if self.is_committing else COMPLETE_ABORT,
            partitions=_NO_PARTITIONS,
            producer_epoch=producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            last_update_ms=now_ms,
        )._replace(producer_id=producer_id)

    def promised(self) -> tuple[int, int]:
        """The client's producer id and epoch once this prepared transaction is complete."""
        if self.client_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def _move(self, state: TransactionState, **changes: object) -> Transaction:
        if state not in NEXT_STATES[self.state]:
            raise InvariantViolation(
                f"transaction {self.transactional_id} cannot go from {self.state.label} "
                f"to {state.label}"
            )
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]
