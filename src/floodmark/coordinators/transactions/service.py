"""This broker's transaction coordinator, for the APIs and the broker.

`broker.coordinators` creates it and reports the partitions of `__transaction_state` it leads
(`load`, `unload`). The transaction APIs call it. The rules are in `shard.py`; here they meet the
log, the markers and the other brokers. Methods respond immediately if the log commits immediately,
and with a promise otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Set

from floodmark.clock import Clock
from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.java_hash import partition_for
from floodmark.coordinators.patterns import InvalidPattern
from floodmark.coordinators.ports import CoordinatorError, NotCoordinator
from floodmark.coordinators.runtime import TIMER_RETRY_MS, CoordinatorRuntime
from floodmark.coordinators.shard import Producer, Timers, Write
from floodmark.coordinators.transactions.limits import Limits
from floodmark.coordinators.transactions.listing import (
    Listing,
    TransactionFilter,
    list_transactions,
    matching_ids,
)
from floodmark.coordinators.transactions.markers import MarkerWriter
from floodmark.coordinators.transactions.ports import Cluster, MarkerLog, TransactionLog
from floodmark.coordinators.transactions.producer_ids import ProducerIds
from floodmark.coordinators.transactions.shard import Identity, TransactionShard
from floodmark.coordinators.transactions.transaction import Outcomes, Transaction
from floodmark.coordinators.transactions.verification import PartitionVerifier
from floodmark.promise import Promise
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode


class TransactionService:
    def __init__(
        self,
        *,
        broker_id: int,
        log: TransactionLog,
        marker_log: MarkerLog,
        cluster: Cluster,
        clock: Clock,
        limits: Limits,
        allocate_producer_ids: Callable[[], Awaitable[tuple[int, int]]],
    ) -> None:
        self.log = log
        self.limits = limits
        self._clock = clock
        self._producer_ids = ProducerIds(allocate_producer_ids)
        self.runtime = CoordinatorRuntime(log, clock, self._make_shard)
        self._markers = MarkerWriter(broker_id, marker_log, cluster, self._complete)
        self.append_marker = marker_log.append_marker
        self._verifier = PartitionVerifier(broker_id, self, cluster, clock)
        self.verify_or_add = self._verifier.verify_or_add

    # Partitions of the transaction topic

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.log.partition_count)

    def load(self, partition: int) -> None:
        self.runtime.load(partition)

    def unload(self, partition: int) -> None:
        self._markers.cancel(partition)
        self.runtime.unload(partition)

    def close(self) -> None:
        self._markers.close()
        self._verifier.close()
        self.runtime.close()
        self._producer_ids.close()

    # Producers

    def new_producer_id(self) -> Identity | Awaitable[Identity]:
        """For an idempotent producer without transactions."""
        return self._with_producer_ids(lambda: Identity(ErrorCode.NONE, self._take_id(), 0))

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Identity | Awaitable[Identity]:
        if not transactional_id:
            return Identity(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.limits.max_timeout_ms:
            return Identity(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def handler(shard: TransactionShard, now_ms: int) -> Write[Identity]:
            return shard.init_producer_id(transactional_id, timeout_ms, expected, now_ms)

        partition = self.partition_for(transactional_id)
        return self._with_producer_ids(lambda: self._submit_identity(partition, handler))

    # Transactions

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> ErrorCode | Promise[ErrorCode]:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST

        def handler(shard: TransactionShard, now_ms: int) -> Write[ErrorCode]:
            return shard.add_partitions(
                transactional_id, producer, partitions, client_version, now_ms
            )

        return self.runtime.submit(self.partition_for(transactional_id), handler, client_code)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> Outcomes | Promise[Outcomes]:
        def handler(shard: TransactionShard, now_ms: int) -> Outcomes:
            return shard.verify_partitions(transactional_id, producer, partitions)

        def failed(error: CoordinatorError) -> Outcomes:
            return dict.fromkeys(partitions, client_code(error))

        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        return self.runtime.query(self.partition_for(transactional_id), handler, failed)

    def end(
        self, transactional_id: str, producer: Producer, client_version: int, *, committed: bool
    ) -> Identity | Awaitable[Identity]:
        """Responds once the outcome is decided. The markers may follow a little later."""
        if not transactional_id:
            return Identity(ErrorCode.INVALID_REQUEST)

        def handler(shard: TransactionShard, now_ms: int) -> Write[Identity]:
            return shard.end(
                transactional_id, producer, client_version, now_ms, committed=committed
            )

        return self._submit_identity(self.partition_for(transactional_id), handler)

    # Queries by tools

    def describe(self, transactional_id: str) -> tuple[ErrorCode, Transaction | None]:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST, None
        try:
            shard = self.runtime.shard(self.partition_for(transactional_id))
        except CoordinatorError as error:
            return client_code(error), None
        transaction = shard.find(transactional_id)
        if transaction is None:
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None
        return ErrorCode.NONE, transaction

    def search(self, wanted: TransactionFilter, among: Set[str] | None = None) -> Listing:
        """`among`: the only transactional ids to look at."""
        if self.runtime.is_loading():
            return Listing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return list_transactions(self._shards(), wanted, self._clock.now_ms(), among)

    async def search_by_pattern(self, pattern: str, wanted: TransactionFilter) -> Listing:
        """A pattern can take milliseconds for each id, so it is matched in a thread."""
        ids = [one.transactional_id for shard in self._shards() for one in shard]
        try:
            matched = await asyncio.to_thread(matching_ids, pattern, ids)
        except InvalidPattern:
            return Listing(ErrorCode.INVALID_REGULAR_EXPRESSION)
        return self.search(wanted, matched)

    def _shards(self) -> list[TransactionShard]:
        return [self.runtime.shard(p) for p in self.runtime.active_partitions]

    # From the decision to its completion

    def prepared(
        self, partition: int, transaction: Transaction, error: CoordinatorError | None
    ) -> None:
        """The outcome of a transaction is committed, or why it is not: its shard calls this."""
        if error is None:
            try:
                epoch = self.log.leader_epoch(partition)
            except NotCoordinator:
                # The partition's new leader finds the outcome in the log.
                return
            self._markers.write(partition, transaction, epoch)
        elif not isinstance(error, NotCoordinator):
            self.recover(partition, [transaction])

    def recover(self, partition: int, transactions: list[Transaction]) -> None:
        self._markers.spawn(partition, self._write_when_committed(partition, transactions))

    async def _write_when_committed(self, partition: int, transactions: list[Transaction]) -> None:
        """Waits, because an outcome that can still be lost could be decided differently later."""
        while (error := await self._until_committed(partition)) is not None:
            if isinstance(error, NotCoordinator):
                return
            await asyncio.sleep(TIMER_RETRY_MS / 1000)
        for transaction in transactions:
            self.prepared(partition, transaction, None)

    async def _until_committed(self, partition: int) -> CoordinatorError | None:
        """Returns once the current log is committed, or the reason it may not be."""
        outcome: CoordinatorError | Promise[CoordinatorError | None] | None
        outcome = self.runtime.query(partition, lambda shard, _: None, lambda error: error)
        return await outcome if isinstance(outcome, Promise) else outcome

    def _complete(self, partition: int, transaction: Transaction) -> None:
        def handler(shard: TransactionShard, now_ms: int) -> Write[None]:
            return shard.complete(transaction, now_ms)

        def failed(error: CoordinatorError) -> None:
            if not isinstance(error, NotCoordinator):
                key = f"complete {transaction.transactional_id}"
                self.runtime.schedule(partition, key, TIMER_RETRY_MS, handler)

        self.runtime.submit(partition, handler, failed)

    # Helpers

    def _make_shard(self, partition: int, timers: Timers) -> TransactionShard:
        return TransactionShard(timers, self.limits, _ShardEffects(self, partition))

    def _take_id(self) -> int:
        return self._producer_ids.take()

    def _submit_identity(
        self, partition: int, handler: Callable[[TransactionShard, int], Write[Identity]]
    ) -> Identity | Promise[Identity]:
        return self.runtime.submit(partition, handler, lambda error: Identity(client_code(error)))

    def _with_producer_ids(
        self, run: Callable[[], Identity | Promise[Identity]]
    ) -> Identity | Awaitable[Identity]:
        """Runs now if a producer id is available, otherwise once there is one."""
        if self._producer_ids.is_ready:
            return run()
        return self._run_when_ready(run)

    async def _run_when_ready(self, run: Callable[[], Identity | Promise[Identity]]) -> Identity:
        await self._producer_ids.ready()
        try:
            outcome = run()
        except CoordinatorError as error:
            return Identity(client_code(error))
        return await outcome if isinstance(outcome, Promise) else outcome


class _ShardEffects:
    """`Effects` of one shard."""

    __slots__ = ("_partition", "_service")

    def __init__(self, service: TransactionService, partition: int) -> None:
        self._service = service
        self._partition = partition

    def take_producer_id(self) -> int:
        return self._service._take_id()

    def prepared(self, transaction: Transaction, error: CoordinatorError | None) -> None:
        self._service.prepared(self._partition, transaction, error)

    def recover(self, transactions: list[Transaction]) -> None:
        self._service.recover(self._partition, transactions)
