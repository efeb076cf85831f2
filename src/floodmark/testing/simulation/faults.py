"""Faults in a simulated cluster. Each method is one fault. It returns a note for the schedule, or
None if the fault cannot happen now.

Faults stay within what the promises allow: records survive as long as one replica that may lead
keeps its disk. So while a disk that lost records is still trusted, no other broker stops uncleanly.
"""

from __future__ import annotations

from typing import Final

from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.testing.simulation.cluster import Cluster
from floodmark.testing.simulation.messages import STORE, AlterPartition
from floodmark.vocabulary import TopicPartition

_CRASH_WITHIN_OPERATIONS: Final = 12
_LOSE_STORE_WITHIN_WRITES: Final = 3
_SPACE_LEFT_BYTES: Final = 300


class Faults:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = cluster.random

    # The network

    def drop(self) -> object:
        network = self._cluster.network
        return network.take(self._random) if network.in_flight else None

    def repeat(self) -> object:
        network = self._cluster.network
        if not network.in_flight:
            return None
        message = self._random.choice(network.in_flight)
        network.send(message)
        return message

    def cut_link(self) -> object:
        nodes = [STORE, *self._cluster.plan.broker_ids]
        one, other = self._random.sample(nodes, 2)
        self._cluster.network.cut(one, other)
        return one, other

    # The disks

    def fill_disk(self) -> object:
        """Leaves a broker's disk only a few bytes, and later none."""
        broker = self._victim()
        if broker is None:
            return None
        broker.files.faults.space_bytes = self._random.randint(0, _SPACE_LEFT_BYTES)
        return broker.id

    # Brokers

    def kill(self) -> object:
        broker = self._victim()
        if broker is None:
            return None
        broker.kill()
        return broker.id

    def crash_within(self) -> object:
        """Crashes the process after some more changes to its disk, wherever it is."""
        broker = self._victim()
        if broker is None:
            return None
        broker.files.crash_after = self._random.randint(0, _CRASH_WITHIN_OPERATIONS)
        return broker.id, broker.files.crash_after

    def lose_power(self) -> object:
        broker = self._victim()
        if broker is None or not all(
            self._survives_without(broker, key)
            for key in self._cluster.plan.keys
            if broker.id in self._cluster.truth(key).replicas
        ):
            return None
        for other in self._cluster.brokers:
            other.files.crash_after = None
            other.files.faults.space_bytes = None
            if other.controller is not None:
                other.controller.dies_after_write = False
        # Drop its last messages, which could make it the only in-sync replica.
        self._cluster.network.forget(
            lambda message: (
                message.source == broker.id and isinstance(message.payload, AlterPartition)
            )
        )
        broker.lose_power(self._random)
        return broker.id

    def stop(self) -> object:
        broker = self._cluster.any_broker(self._may_go)
        if broker is None:
            return None
        return broker.id, self._cluster.in_broker(broker, broker.stop)

    def pause(self) -> object:
        broker = self._cluster.any_broker(self._may_go)
        if broker is None:
            return None
        broker.is_paused = True
        return broker.id

    # Sessions and controllers

    def expire_live(self) -> object:
        """Expires a session without its broker knowing: its leaders become zombies."""
        broker = self._cluster.any_broker(lambda one: self._may_go(one) and one.has_session)
        if broker is None:
            return None
        self._cluster.store.end_session(broker.session)
        return broker.id

    def accuse_live(self) -> object:
        """Makes the controller consider a live broker with a session dead."""
        broker = self._cluster.any_broker(lambda one: self._may_go(one) and one.has_session)
        return None if broker is None else self.accuse(broker)

    def accuse(self, broker: SimulatedBroker) -> object:
        """Gives the controller proof that the process of the epoch it knows is gone."""
        epoch = broker.fence.broker_epoch
        judge = self._cluster.any_broker(
            lambda one: one.controller is not None and self._cluster.reaches_store(one)
        )
        if judge is None or judge is broker:
            return None
        return broker.id, self._cluster.in_broker(
            judge,
            lambda: judge.as_controller(lambda role: role.take_for_dead(broker.id, epoch)),
        )

    def lose_answer(self) -> object:
        """The next write to the store succeeds, but its response is lost."""
        self._cluster.store.loses_next_answer = True
        return "of the store"

    def lose_store_within(self) -> object:
        """One of the next writes to the store fails, perhaps the second half of a decision."""
        self._cluster.store.writes_until_lost = self._random.randint(0, _LOSE_STORE_WITHIN_WRITES)
        return self._cluster.store.writes_until_lost

    def crash_controller(self) -> object:
        """Crashes the controller after it stores its next decision, before it informs anyone."""
        broker = self._cluster.any_broker(
            lambda one: one.controller is not None and self._may_stop_uncleanly(one)
        )
        if broker is None or broker.controller is None:
            return None
        broker.controller.dies_after_write = True
        return broker.id

    # Limits on faults

    def may_change_leaders(self) -> bool:
        """If one in-sync replica suffices, a disk that lost records must be noticed first.

        Otherwise it might become the only one in sync.
        """
        return not any(
            self._minimum(key) == 1 and self._cluster.is_trusted(broker, key)
            for broker in self._cluster.brokers
            for key in broker.lost_data_in
        )

    def _victim(self) -> SimulatedBroker | None:
        broker = self._cluster.any_broker(self._cluster.is_awake)
        return broker if broker is not None and self._may_stop_uncleanly(broker) else None

    def _may_stop_uncleanly(self, victim: SimulatedBroker) -> bool:
        return all(broker is victim or not broker.lost_data_in for broker in self._cluster.brokers)

    def _may_go(self, broker: SimulatedBroker) -> bool:
        return self._cluster.is_awake(broker) and (
            self.may_change_leaders() or bool(broker.lost_data_in)
        )

    def _survives_without(self, victim: SimulatedBroker, key: TopicPartition) -> bool:
        """Whether another live replica that may lead has all records.

        One whose own restart is unnoticed does not count: it is about to be distrusted.
        """
        if self._cluster.plan.topic(key[0]).is_synced:
            return True
        if victim.id in self._cluster.truth(key).adding_replicas:
            # Its last fetch may complete the move, and nobody else would have the records.
            return False
        return any(
            broker is not victim
            and broker.is_running
            and broker.has_session
            and self._cluster.is_known(broker)
            and key not in broker.lost_data_in
            and self._cluster.is_trusted(broker, key)
            and (self._minimum(key) > 1 or broker.id in self._cluster.truth(key).isr)
            for broker in self._cluster.brokers
        )

    def _minimum(self, key: TopicPartition) -> int:
        topic = self._cluster.plan.topic(key[0])
        return min(topic.min_in_sync_replicas, len(topic.replicas[key[1]]))
