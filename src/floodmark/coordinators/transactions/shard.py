"""The transactions of one partition of `__transaction_state`. PURE.

Handlers decide and return a `Write`; only `replay` changes what is stored. Run by
`coordinators.runtime` for `transactions.service`. A transaction whose outcome is decided
(`PREPARED`) waits for its markers: until they are written, every other request gets
CONCURRENT_TRANSACTIONS. The same applies while its last transition is not committed: the next one
must not build on something that a failover can undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from floodmark.coordinators.ports import CoordinatorError
from floodmark.coordinators.shard import Producer, Timers, Write
from floodmark.coordinators.transactions.ending import Verdict, judge_end
from floodmark.coordinators.transactions.limits import Limits
from floodmark.coordinators.transactions.records import (
    decode_transaction,
    decode_transactional_id,
    encode_transaction,
    encode_transactional_id,
)
from floodmark.coordinators.transactions.states import ONGOING
from floodmark.coordinators.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    Transaction,
    is_exhausted,
)
from floodmark.vocabulary import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")

ABORT_TIMER = "abort-timed-out"
EXPIRE_TIMER = "remove-expired"
# No timer run may hold the loop for long.
MAX_TOMBSTONES = 1000


class Identity(NamedTuple):
    """A producer's current or next producer id and epoch."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Tombstone(NamedTuple):
    """The record that removes a transactional id."""

    transactional_id: str


class Effects(Protocol):
    """What a shard needs from its service."""

    def take_producer_id(self) -> int:
        """A new producer id. Raises CoordinatorError if none is available."""

    def prepared(self, transaction: Transaction, error: CoordinatorError | None) -> None:
        """An outcome is decided: writes the markers once it is committed.

        `error` says that it is in the log but may not be committed."""

    def recover(self, transactions: list[Transaction]) -> None:
        """These outcomes were decided by a previous coordinator."""


class TransactionShard:
    def __init__(self, timers: Timers, limits: Limits, effects: Effects) -> None:
        self._timers = timers
        self._limits = limits
        self._effects = effects
        self._transactions: dict[str, Transaction] = {}
        # Transactional ids whose last record waits for the high watermark.
        self._moving: set[str] = set()

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def find(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # Requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        now_ms: int,
    ) -> Write[Identity]:
        """A producer starts, or recovers from an error and gives its old identity (KIP-360)."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            fresh = Transaction(
                transactional_id, self._effects.take_producer_id(), timeout_ms, now_ms
            )
            return self._start(fresh.with_epoch(0, NO_PRODUCER_EPOCH, timeout_ms, now_ms))
        if self._is_busy(transaction):
            raise _busy()
        if expected is not None and not _may_be(transaction, expected):
            return _refuse(ErrorCode.PRODUCER_FENCED)
        if transaction.state is ONGOING:
            # Nobody ever gets the epoch of the abort. The client asks again and gets another.
            return self._prepare(
                self._fence(transaction, now_ms), Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        return self._restart(transaction, timeout_ms, expected, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Write[ErrorCode]:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return Write(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if self._is_busy(transaction):
            # Check this first: the producer may use an id from the transition in progress.
            raise _busy()
        error_code = _check(transaction, producer)
        if error_code is not ErrorCode.NONE:
            return Write(error_code)
        if transaction.state is ONGOING and partitions <= transaction.partitions:
            return Write(ErrorCode.NONE)
        self._schedule_abort()
        return self._move(
            ErrorCode.NONE, [transaction.with_partitions(partitions, client_version, now_ms)]
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are in the producer's open transaction (KIP-890).

        A transition in progress is no obstacle: the response waits for it, and the requesting log
        checks again when it appends.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            error_code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        else:
            error_code = _check(transaction, producer)
            if error_code is ErrorCode.NONE and transaction.is_prepared:
                error_code = ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction is None or error_code is not ErrorCode.NONE:
            return dict.fromkeys(partitions, error_code)
        return {
            partition: ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        client_version: int,
        now_ms: int,
        *,
        committed: bool,
    ) -> Write[Identity]:
        """Commits or aborts. In version 2, the response contains the next transaction's epoch."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        verdict = judge_end(
            transaction,
            producer,
            client_version,
            is_busy=self._is_busy(transaction),
            committed=committed,
        )
        if verdict is Verdict.BUSY:
            raise _busy()
        if verdict is not Verdict.PREPARE:
            return Write(_answer_without_change(transaction, verdict, client_version))
        prepared = transaction.prepared(
            committed=committed,
            client_version=client_version,
            next_producer_id=self._next_producer_id(transaction, client_version),
            now_ms=now_ms,
        )
        if client_version < EPOCH_BUMP_VERSION:
            return self._prepare(prepared, Identity(ErrorCode.NONE))
        return self._prepare(prepared, Identity(ErrorCode.NONE, *prepared.promised()))

    def complete(self, prepared: Transaction, now_ms: int) -> Write[None]:
        """The markers of this outcome are written. Does nothing if they were another's."""
        if self._transactions.get(prepared.transactional_id) != prepared:
            return Write(None)
        return self._move(None, [prepared.completed(now_ms)])

    # Timers

    def abort_timed_out(self, now_ms: int) -> Write[None]:
        fenced = []
        has_open = False
        for transaction in self._transactions.values():
            if transaction.is_timed_out(now_ms) and not self._is_busy(transaction):
                fenced.append(self._fence(transaction, now_ms))
            elif transaction.state is ONGOING:
                has_open = True
        if has_open:
            self._schedule_abort()
        return self._move(None, fenced, self._when_prepared(fenced), atomic=False)

    def remove_expired(self, now_ms: int) -> Write[None]:
        """Sets the next run first, whatever happens to this one.

        It runs immediately only if the log has accepted all records.
        """
        self._schedule_expire(self._limits.expire_interval_ms)
        expiration_ms = self._limits.expiration_ms
        expired = [
            Tombstone(transaction.transactional_id)
            for transaction in self._transactions.values()
            if transaction.is_expired(now_ms, expiration_ms) and not self._is_busy(transaction)
        ]
        is_complete = len(expired) <= MAX_TOMBSTONES
        go_on = None if is_complete else lambda: self._schedule_expire(0)
        return Write(None, expired[:MAX_TOMBSTONES], applied=go_on, atomic=False)

    # The shard's lifecycle

    def encode(self, record: Transaction | Tombstone) -> tuple[bytes, bytes | None]:
        key = encode_transactional_id(record.transactional_id)
        if isinstance(record, Tombstone):
            return key, None
        return key, encode_transaction(record, self._limits.server_version)

    def decode(self, key: bytes, value: bytes | None) -> Transaction | Tombstone | None:
        transactional_id = decode_transactional_id(key)
        if transactional_id is None:
            return None
        if value is None:
            return Tombstone(transactional_id)
        return decode_transaction(transactional_id, value)

    def replay(
        self, record: Transaction | Tombstone, offset: int, producer: Producer | None
    ) -> None:
        if isinstance(record, Tombstone):
            self._transactions.pop(record.transactional_id, None)
        else:
            self._transactions[record.transactional_id] = record

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        """The transaction topic is written without transactions.

        A marker in it, perhaps caused by a client, ends nothing.
        """

    def loaded(self, now_ms: int) -> None:
        open_transactions = [t for t in self._transactions.values() if t.is_prepared]
        if open_transactions:
            self._effects.recover(open_transactions)
        if any(t.state is ONGOING for t in self._transactions.values()):
            self._schedule_abort()
        self._schedule_expire(self._limits.expire_interval_ms)

    def unloaded(self) -> None:
        self._transactions.clear()

    # Decisions

    def _is_busy(self, transaction: Transaction) -> bool:
        return transaction.is_prepared or transaction.transactional_id in self._moving

    def _move(
        self,
        answer: T,
        moved: Sequence[Transaction],
        then: Callable[[CoordinatorError | None], None] | None = None,
        *,
        atomic: bool = True,
    ) -> Write[T]:
        """Until these are committed or have failed, their transactions make no other transition."""
        ids = {transaction.transactional_id for transaction in moved}
        self._moving |= ids

        def settled(error: CoordinatorError | None) -> None:
            self._moving -= ids
            if then is not None:
                then(error)

        return Write(answer, moved, then=settled, atomic=atomic)

    def _restart(
        self, transaction: Transaction, timeout_ms: int, expected: Producer | None, now_ms: int
    ) -> Write[Identity]:
        current = transaction.producer_epoch
        if transaction.is_exhausted and (expected is None or expected.producer_epoch == current):
            return self._start(
                transaction.with_new_producer_id(
                    self._effects.take_producer_id(),
                    NO_PRODUCER_EPOCH if expected is None else current,
                    timeout_ms,
                    now_ms,
                )
            )
        if expected is None:
            epochs = (current + 1, NO_PRODUCER_EPOCH)
        elif expected.producer_epoch == current:
            epochs = (current + 1, current)
        elif expected.producer_epoch == transaction.last_producer_epoch:
            # A repeated request whose response was lost.
            epochs = (current, transaction.last_producer_epoch)
        else:
            return _refuse(ErrorCode.PRODUCER_FENCED)
        return self._start(transaction.with_epoch(*epochs, timeout_ms, now_ms))

    def _start(self, started: Transaction) -> Write[Identity]:
        identity = Identity(ErrorCode.NONE, started.producer_id, started.producer_epoch)
        return self._move(identity, [started])

    def _fence(self, transaction: Transaction, now_ms: int) -> Transaction:
        server_version = self._limits.server_version
        return transaction.fenced(
            server_version=server_version,
            next_producer_id=self._next_producer_id(transaction, server_version),
            now_ms=now_ms,
        )

    def _next_producer_id(self, transaction: Transaction, version: int) -> int:
        """If ending the transaction uses up the last epoch, the client continues under a new id."""
        if version >= EPOCH_BUMP_VERSION and transaction.is_exhausted:
            return self._effects.take_producer_id()
        return NO_PRODUCER_ID

    def _prepare(self, prepared: Transaction, identity: Identity) -> Write[Identity]:
        return self._move(identity, [prepared], self._when_prepared([prepared]))

    def _when_prepared(
        self, prepared: list[Transaction]
    ) -> Callable[[CoordinatorError | None], None]:
        def then(error: CoordinatorError | None) -> None:
            for transaction in prepared:
                # After a failed append nothing has changed, and no markers are needed.
                if (
                    error is None
                    or self._transactions.get(transaction.transactional_id) == transaction
                ):
                    self._effects.prepared(transaction, error)

        return then

    def _schedule_abort(self) -> None:
        if not self._timers.is_scheduled(ABORT_TIMER):
            self._timers.schedule(
                ABORT_TIMER, self._limits.abort_interval_ms, TransactionShard.abort_timed_out
            )

    def _schedule_expire(self, delay_ms: int) -> None:
        self._timers.schedule(EXPIRE_TIMER, delay_ms, TransactionShard.remove_expired)


def _may_be(transaction: Transaction, expected: Producer) -> bool:
    """Whether a recovering producer may be the owner of the transactional id.

    It is if it names the current id (its epoch is checked later), or the previous id with its last
    epoch: then the response with the new id was lost.
    """
    return expected.producer_id == transaction.producer_id or (
        expected.producer_id == transaction.previous_producer_id
        and is_exhausted(expected.producer_epoch)
    )


def _check(transaction: Transaction, producer: Producer) -> ErrorCode:
    if transaction.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _answer_without_change(
    transaction: Transaction, verdict: Verdict, client_version: int
) -> Identity:
    if verdict is Verdict.DONE_BEFORE and client_version >= EPOCH_BUMP_VERSION:
        return Identity(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)
    return Identity(verdict.error_code)


def _busy() -> CoordinatorError:
    """Raised, not returned: a response would wait for the very transition in progress."""
    return CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _refuse(error_code: ErrorCode) -> Write[Identity]:
    return Write(Identity(error_code))
