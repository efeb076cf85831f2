"""A transaction coordinator in memory: its log, its markers and its cluster can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.limits import Limits
from floodmark.coordinators.transactions.listing import TransactionFilter
from floodmark.coordinators.transactions.ports import Marker
from floodmark.coordinators.transactions.records import (
    decode_transaction,
    decode_transactional_id,
)
from floodmark.coordinators.transactions.service import TransactionService
from floodmark.coordinators.transactions.shard import Identity
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.promise import Promise
from floodmark.records.record import decode_records
from floodmark.testing.memory_coordinator_log import MemoryCoordinatorLog
from floodmark.testing.virtual_clock import FIXED_START_MS, VirtualClock
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")

BROKER_ID = 1
OTHER_BROKER_ID = 2
FIRST_VERSION = 0
SECOND_VERSION = 2


class MemoryTransactionLog(MemoryCoordinatorLog):
    def __init__(self, *, commits_later: bool = False) -> None:
        super().__init__("__transaction_state", commits_later=commits_later)
        self.current_leader_epoch = 5

    def leader_epoch(self, partition: int) -> int:
        return self.current_leader_epoch


class MemoryMarkers:
    """Keeps the markers; `refuse` makes the next ones for a partition fail, or wait."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, Marker]] = []
        self.refuse: dict[tuple[str, int], list[ErrorCode | Promise[ErrorCode]]] = {}

    def append_marker(
        self, topic: str, partition: int, marker: Marker
    ) -> ErrorCode | Promise[ErrorCode]:
        refusals = self.refuse.get((topic, partition))
        if refusals:
            return refusals.pop(0)
        self.written.append((topic, partition, marker))
        return ErrorCode.NONE


class MemoryCluster:
    """This broker leads everything that `leaders` does not give to another."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int | None] = {}
        self.requests: list[tuple[int, Any]] = []
        self.answers: list[Any] = []

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders.get((topic, partition), BROKER_ID)

    async def request(self, broker_id: int, message: Any) -> Any:
        self.requests.append((broker_id, message))
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


class TransactionBench:
    """`load_again` is a failover: a new coordinator on the same log."""

    def __init__(
        self,
        server_version: int = SECOND_VERSION,
        first_producer_id: int = 1000,
        *,
        commits_later: bool = False,
    ) -> None:
        self.clock = VirtualClock(FIXED_START_MS)
        self.log = MemoryTransactionLog(commits_later=commits_later)
        self.markers = MemoryMarkers()
        self.cluster = MemoryCluster()
        self.next_producer_id = first_producer_id
        self.limits = Limits(
            server_version=server_version,
            max_timeout_ms=900_000,
            expiration_ms=604_800_000,
            abort_interval_ms=10_000,
            expire_interval_ms=3_600_000,
            add_retry_backoff_ms=1,
            add_retry_max_ms=100,
        )
        self.service = self._make()

    def _make(self) -> TransactionService:
        service = TransactionService(
            broker_id=BROKER_ID,
            log=self.log,
            marker_log=self.markers,
            cluster=self.cluster,
            clock=self.clock,
            limits=self.limits,
            allocate_producer_ids=self._allocate,
        )
        for partition in range(self.log.partition_count):
            service.load(partition)
        return service

    async def _allocate(self) -> tuple[int, int]:
        first = self.next_producer_id
        self.next_producer_id += 1000
        return first, 1000

    async def load_again(self) -> None:
        self.service.close()
        self.service = self._make()
        await self.service.runtime.until_loaded()

    def transaction(self, transactional_id: str = "t") -> Transaction:
        error_code, transaction = self.service.describe(transactional_id)
        assert transaction is not None, error_code
        return transaction

    def stored(self, transactional_id: str) -> Transaction:
        """What a coordinator that loads the log would know."""
        found = None
        for chunk in self.log.read(self.service.partition_for(transactional_id)):
            for record in decode_records(chunk):
                assert record.key is not None
                if decode_transactional_id(record.key) == transactional_id:
                    value = record.value
                    found = None if value is None else decode_transaction(transactional_id, value)
        assert found is not None
        return found

    def all_transactions(self) -> list[Transaction]:
        return self.service.search(TransactionFilter()).transactions

    async def init(
        self,
        transactional_id: str = "t",
        expected: Producer | None = None,
        timeout_ms: int = 60_000,
    ) -> Identity:
        return await settled(self.service.init_producer_id(transactional_id, timeout_ms, expected))

    async def start(self, transactional_id: str = "t") -> Producer:
        identity = await self.init(transactional_id)
        assert identity.error_code is ErrorCode.NONE
        return Producer(identity.producer_id, identity.producer_epoch)

    async def add(
        self,
        producer: Producer,
        *partitions: tuple[str, int],
        version: int = SECOND_VERSION,
        transactional_id: str = "t",
    ) -> ErrorCode:
        return await settled(
            self.service.add_partitions(transactional_id, producer, frozenset(partitions), version)
        )

    async def end(
        self,
        producer: Producer,
        *,
        committed: bool = True,
        version: int = SECOND_VERSION,
        transactional_id: str = "t",
    ) -> Identity:
        return await settled(
            self.service.end(transactional_id, producer, version, committed=committed)
        )

    def use_epochs(self, producer_epoch: int, transactional_id: str = "t") -> None:
        """Pretend that the transactional id has come this far."""
        shard = self.service.runtime.shard(self.service.partition_for(transactional_id))
        transaction = self.transaction(transactional_id)
        shard.replay(transaction._replace(producer_epoch=producer_epoch), 0, None)

    def advance(self, elapsed_ms: int) -> None:
        self.clock.advance(elapsed_ms)
        self.service.runtime.run_timers()

    def close(self) -> None:
        self.service.close()


async def settled(outcome: T | Awaitable[T]) -> T:
    if isinstance(outcome, Awaitable):
        return await outcome
    return outcome


async def until(condition: Any) -> None:
    """Let the loop run until something is true; the test's timeout ends what never will be."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
