"""A simulated cluster: brokers, store, network, clients, and the delivery of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

from floodmark.metadata.image import PartitionImage
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.storage.errors import DiskFull, LogDirFailure
from floodmark.testing.crashing_files import CrashNow
from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.testing.simulation.consumers import SimulatedConsumer
from floodmark.testing.simulation.invariants import Invariants
from floodmark.testing.simulation.messages import (
    STORE,
    ConsumerFetchAnswer,
    MarkerAnswer,
    Message,
    ProduceAnswer,
)
from floodmark.testing.simulation.network import SimulatedNetwork
from floodmark.testing.simulation.plan import make_plan
from floodmark.testing.simulation.producers import IdempotentProducer, TransactionalProducer
from floodmark.testing.simulation.store import SimulatedStore
from floodmark.testing.virtual_clock import FIXED_START_MS, VirtualClock
from floodmark.vocabulary import TopicPartition

Producer: TypeAlias = IdempotentProducer | TransactionalProducer

_FIRST_PRODUCER = 101
_FIRST_TRANSACTIONAL = 151
_FIRST_CONSUMER = 201


class Cluster:
    def __init__(self, random: Random, brokers: int | None, fixed: Mapping[str, object]) -> None:
        self.random = random
        self.clock = VirtualClock(FIXED_START_MS)
        self.network = SimulatedNetwork()
        self.plan = make_plan(random, brokers, fixed)
        self.store = SimulatedStore(self.plan)
        self.brokers = [
            SimulatedBroker(broker_id, self.clock, self.plan, self.store)
            for broker_id in self.plan.broker_ids
        ]
        self.producers = self._make_producers()
        self.transactional = self._make_transactional()
        self.consumers = self._make_consumers()
        self.invariants = Invariants(self.store, self.transactional)
        self.clients: list[Producer] = [*self.producers, *self.transactional]
        self._clients = {client.id: client for client in self.clients}

    def _make_producers(self) -> list[IdempotentProducer]:
        producers: list[IdempotentProducer] = []
        for key in self.plan.keys:
            is_clean = self.plan.topic(key[0]).is_clean
            for acks in (ACKS_ALL, ACKS_ALL, 1):
                number = _FIRST_PRODUCER + len(producers)
                may_lose_place = acks != ACKS_ALL or not is_clean
                producer = IdempotentProducer(
                    number, key, acks, may_lose_place, self.clock, self.network.send
                )
                producers.append(producer)
        return producers

    def _make_transactional(self) -> list[TransactionalProducer]:
        keys = [key for key in self.plan.keys if self.plan.topic(key[0]).is_clean]
        if not keys or self.random.random() < 0.3:
            return []
        return [
            TransactionalProducer(
                _FIRST_TRANSACTIONAL + number, keys, self.clock, self.network.send
            )
            for number in range(2)
        ]

    def _make_consumers(self) -> list[SimulatedConsumer]:
        consumers: list[SimulatedConsumer] = []
        for key in self.plan.keys:
            for is_read_committed in (False, True):
                number = _FIRST_CONSUMER + len(consumers)
                may_diverge = not self.plan.topic(key[0]).is_clean
                consumers.append(
                    SimulatedConsumer(
                        number, key, is_read_committed, may_diverge, self.network.send
                    )
                )
        return consumers

    def close(self) -> None:
        self.store.close()

    # Queries

    def truth(self, key: TopicPartition) -> PartitionImage:
        return self.store.truth[key]

    def any_broker(
        self, is_wanted: Callable[[SimulatedBroker], bool] = lambda broker: True
    ) -> SimulatedBroker | None:
        candidates = [broker for broker in self.brokers if is_wanted(broker)]
        return self.random.choice(candidates) if candidates else None

    def is_awake(self, broker: SimulatedBroker) -> bool:
        return broker.is_running and not broker.is_paused

    def reaches_store(self, broker: SimulatedBroker) -> bool:
        return self.is_awake(broker) and not self.network.is_cut(STORE, broker.id)

    def leader_of(self, key: TopicPartition) -> int:
        """The broker that a client considers the leader; usually the right one."""
        leader = self.truth(key).leader
        if leader < 0 or self.random.random() < 0.15:
            return self.random.choice(self.brokers).id
        return leader

    # Steps

    def in_broker(self, broker: SimulatedBroker, do: Callable[[], object]) -> str | None:
        """Runs a step of a broker. If it crashes mid-step, none of its messages get out.

        On a full disk the step fails and the broker lives on without a response. If the log is left
        in doubt, the broker exits, as it does without a log folder. Returns what went wrong.
        """
        try:
            do()
        except DiskFull:
            return "disk full"
        except (CrashNow, LogDirFailure):
            broker.kill()
            return "died"
        return None

    def arrive(self, message: Message) -> str | None:
        source, target, payload = message
        if self.network.is_cut(source, target):
            return "lost"
        if target <= len(self.brokers):
            broker = self.brokers[target - 1]
            if broker.is_running:
                return self.in_broker(broker, lambda: broker.receive(source, payload))
        elif isinstance(payload, ProduceAnswer | MarkerAnswer):
            self._clients[target].answered(payload)
        elif isinstance(payload, ConsumerFetchAnswer):
            consumer = self.consumers[target - _FIRST_CONSUMER]
            consumer.answered(payload)
            self.invariants.check_consumer(consumer)
        return None

    def settle(self) -> None:
        """Ends a step: sends the brokers' messages and checks the invariants."""
        self._forgive_noticed_losses()
        self.invariants.check(self.brokers)
        for broker in self.brokers:
            for message in broker.outbox:
                self.network.send(message)
            broker.outbox.clear()
            broker.acknowledged.clear()
            broker.obeyed.clear()

    def _forgive_noticed_losses(self) -> None:
        """A replica that lost data counts again once it was removed from those that may lead."""
        for broker in self.brokers:
            for key in list(broker.lost_data_in):
                if not self.is_trusted(broker, key) and self.is_noticed(broker):
                    broker.lost_data_in.discard(key)

    def is_noticed(self, broker: SimulatedBroker) -> bool:
        """Whether no fetch from before its loss can readmit the broker (KIP-903)."""
        known = self.store.known.get(broker.id)
        return known is None or known.is_fenced or known.broker_epoch > broker.lost_data_in_epoch

    def is_known(self, broker: SimulatedBroker) -> bool:
        """Whether a controller has processed the broker's current registration."""
        known = self.store.known.get(broker.id)
        return (
            known is not None
            and not known.is_fenced
            and known.broker_epoch == broker.fence.broker_epoch
        )

    def is_trusted(self, broker: SimulatedBroker, key: TopicPartition) -> bool:
        """Whether a broker may be elected for a partition."""
        truth = self.truth(key)
        return broker.id in truth.isr or broker.id in truth.eligible_leader_replicas
