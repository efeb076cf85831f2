"""The transaction coordinator against a model of a few lines, with failovers at any point.

The model knows who owns a transactional id, what is open and what was decided. After every step a
coordinator that loads the log must hold the same state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.states import EMPTY, ONGOING
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from kit.flushed import COMMITS_LATER
from kit.loop_machine import settle
from kit.transactions import SECOND_VERSION, TransactionBench, until

IDS = st.sampled_from(["a", "b"])
PARTITIONS = [("topic", 0), ("topic", 1), ("__consumer_offsets", 7)]


@dataclass
class Owner:
    """What a client of the transactional id may believe."""

    producer: Producer
    open_partitions: set[tuple[str, int]] = field(default_factory=set)
    is_deciding: bool = False
    zombies: list[Producer] = field(default_factory=list)


class TransactionCoordinatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench = self.run(_make())
        self.owners: dict[str, Owner] = {}
        self.given: set[Producer] = set()
        self.blocked = False

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(_settled(work))

    def teardown(self) -> None:
        self.run(_close(self.bench))
        self.runner.close()

    # Clients

    @rule(name=IDS)
    def a_producer_starts(self, name: str) -> None:
        identity = self.run(self.bench.init(name))
        owner = self.owners.get(name)
        if owner is not None and owner.is_deciding:
            assert identity.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
            return
        if owner is not None and owner.open_partitions:
            assert identity.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
            self.fence(owner)
            return
        assert identity.error_code is ErrorCode.NONE
        producer = Producer(identity.producer_id, identity.producer_epoch)
        assert producer not in self.given, "an identity is given to one producer only"
        self.given.add(producer)
        if owner is None:
            self.owners[name] = Owner(producer)
        else:
            owner.zombies.append(owner.producer)
            owner.producer = producer

    @rule(name=IDS, partition=st.sampled_from(PARTITIONS))
    def the_owner_adds_a_partition(self, name: str, partition: tuple[str, int]) -> None:
        owner = self.owners.get(name)
        if owner is None:
            return
        error_code = self.run(self.bench.add(owner.producer, partition, transactional_id=name))
        if owner.is_deciding:
            assert error_code is ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            assert error_code is ErrorCode.NONE
            owner.open_partitions.add(partition)

    @rule(name=IDS, committed=st.booleans())
    def the_owner_ends_its_transaction(self, name: str, committed: bool) -> None:
        owner = self.owners.get(name)
        if owner is None:
            return
        markers_before = len(self.bench.markers.written)
        identity = self.run(
            self.bench.end(owner.producer, committed=committed, transactional_id=name)
        )
        if owner.is_deciding:
            assert identity.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
            return
        if committed and not owner.open_partitions:
            assert identity.error_code is ErrorCode.INVALID_TXN_STATE
            return
        assert identity.error_code is ErrorCode.NONE
        written = self.bench.markers.written[markers_before:]
        if not self.blocked:
            assert {(topic, partition) for topic, partition, _ in written} == owner.open_partitions
        assert all(marker.committed is committed for _, _, marker in written)
        owner.is_deciding = self.blocked and bool(owner.open_partitions)
        owner.open_partitions.clear()
        owner.zombies.append(owner.producer)
        owner.producer = Producer(identity.producer_id, identity.producer_epoch)
        assert owner.producer not in self.given
        self.given.add(owner.producer)

    @rule(name=IDS, data=st.data(), committed=st.booleans())
    def a_zombie_changes_nothing(self, name: str, data: st.DataObject, committed: bool) -> None:
        owner = self.owners.get(name)
        if owner is None or not owner.zombies:
            return
        # The last of them may repeat its own request; that is not a zombie's doing.
        old = owner.zombies[:-1]
        if not old:
            return
        zombie = data.draw(st.sampled_from(old))
        before = self.bench.transaction(name)
        written = len(self.bench.markers.written)
        added = self.run(self.bench.add(zombie, PARTITIONS[0], transactional_id=name))
        ended = self.run(self.bench.end(zombie, committed=committed, transactional_id=name))
        assert added is not ErrorCode.NONE
        assert ended.error_code is not ErrorCode.NONE
        assert self.bench.transaction(name) == before
        assert len(self.bench.markers.written) == written

    # The world

    @rule()
    def time_runs_out(self) -> None:
        self.run(_advance(self.bench, 80_000))
        for owner in self.owners.values():
            if owner.open_partitions and not owner.is_deciding:
                self.fence(owner)

    @precondition(lambda self: not self.blocked)
    @rule()
    def the_partitions_lose_their_leader(self) -> None:
        self.blocked = True
        self.bench.cluster.leaders = dict.fromkeys(PARTITIONS, NO_LEADER)

    @precondition(lambda self: self.blocked)
    @rule()
    def the_partitions_have_a_leader_again(self) -> None:
        self.blocked = False
        self.bench.cluster.leaders = {}
        self.run(_until_all_is_decided(self.bench))
        for owner in self.owners.values():
            owner.is_deciding = False

    @rule()
    def another_broker_takes_over(self) -> None:
        self.run(self.bench.load_again())
        if not self.blocked:
            self.run(_until_all_is_decided(self.bench))

    def fence(self, owner: Owner) -> None:
        owner.is_deciding = self.blocked
        owner.open_partitions.clear()
        # The abort has an epoch of its own. As in Kafka, the fenced producer may still learn it by
        # aborting what was aborted for it; it is nobody else's.
        name = next(n for n, o in self.owners.items() if o is owner)
        self.run(asyncio.sleep(0))
        transaction = self.bench.transaction(name)
        owner.zombies.append(owner.producer)
        owner.producer = Producer(transaction.producer_id, transaction.producer_epoch)
        self.given.add(owner.producer)

    @invariant()
    def the_state_agrees_with_the_model(self) -> None:
        for name, owner in self.owners.items():
            transaction = self.bench.transaction(name)
            assert transaction.is_prepared == owner.is_deciding
            if not owner.is_deciding:
                assert transaction.partitions == owner.open_partitions
                assert (transaction.state is ONGOING) == bool(owner.open_partitions)

    @invariant()
    def a_load_of_the_log_gives_the_same_state(self) -> None:
        for name in self.owners:
            stored = self.bench.stored(name)
            current = self.bench.transaction(name)
            assert stored == current._replace(last_producer_epoch=-1)
            assert stored.state is not EMPTY or not stored.partitions


async def _make() -> TransactionBench:
    return TransactionBench(SECOND_VERSION, commits_later=COMMITS_LATER)


async def _settled(work: Coroutine[Any, Any, Any]) -> Any:
    result = await work
    await settle()
    return result


async def _close(bench: TransactionBench) -> None:
    bench.close()
    await asyncio.sleep(0)


async def _advance(bench: TransactionBench, elapsed_ms: int) -> None:
    bench.advance(elapsed_ms)


async def _until_all_is_decided(bench: TransactionBench) -> None:
    await until(lambda: not any(t.is_prepared for t in bench.all_transactions()))


TestTransactionCoordinator = TransactionCoordinatorMachine.TestCase
TestTransactionCoordinator.settings = settings(
    max_examples=100, stateful_step_count=25, deadline=None
)
