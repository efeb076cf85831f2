"""A simulated cluster's regular work, and its recovery from faults.

Each method is one round of something a real cluster does by itself. It returns a note for the
schedule, or None if there was nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.testing.simulation.cluster import Cluster
from floodmark.testing.simulation.controller import SimulatedController
from floodmark.testing.simulation.faults import Faults


class Work:
    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._random = cluster.random

    # Clients

    def produce(self) -> object:
        producer = self._random.choice(self._cluster.clients)
        producer.tick(self._cluster.leader_of, self._random)
        return producer.id

    def consume(self) -> object:
        consumer = self._random.choice(self._cluster.consumers)
        from_follower = self._random.random() < 0.3
        target = (
            self._random.choice(self._cluster.truth(consumer.key).replicas)
            if from_follower
            else self._cluster.leader_of(consumer.key)
        )
        consumer.tick(target, self._random, from_follower=from_follower)
        return consumer.id, consumer.next_offset

    def delete_records(self) -> object:
        key = self._random.choice(self._cluster.plan.keys)
        if self._cluster.plan.topic(key[0]).retention_bytes < 0:
            return None
        share = self._random.random() ** 2
        return self._at_one(lambda broker: broker.leading.delete_records(key, share))

    # Brokers

    def fetch(self) -> object:
        return self._at_one(lambda broker: broker.following.fetch_all(self._random))

    def review_isr(self) -> object:
        return self._at_one(lambda broker: broker.leading.review_isr())

    def disk(self) -> object:
        return self._at_one(
            lambda broker: broker.background.progress(self._random),
            lambda broker: not broker.background.is_idle,
        )

    def checkpoint(self) -> object:
        return self._at_one(lambda broker: broker.checkpoint())

    def flush(self) -> object:
        return self._at_one(lambda broker: broker.flush())

    def retain(self) -> object:
        return self._at_one(lambda broker: broker.retain())

    def _at_one(
        self,
        do: Callable[[SimulatedBroker], object],
        is_wanted: Callable[[SimulatedBroker], bool] = lambda broker: True,
    ) -> object:
        cluster = self._cluster
        broker = cluster.any_broker(lambda one: cluster.is_awake(one) and is_wanted(one))
        if broker is None:
            return None
        chosen = broker
        return chosen.id, cluster.in_broker(chosen, lambda: do(chosen))

    # Sessions

    def expire_dead(self) -> object:
        """Expires the session of a process that is gone."""
        store, brokers = self._cluster.store, self._cluster.brokers
        dead = [
            session
            for session, broker_id in store.sessions.items()
            if not brokers[broker_id - 1].is_running or brokers[broker_id - 1].session != session
        ]
        if not dead or not self._faults.may_change_leaders():
            return None
        session = self._random.choice(dead)
        broker_id = store.sessions[session]
        store.end_session(session)
        return broker_id

    def accuse_dead(self) -> object:
        """The controller finds out that a process is gone before its session expires."""
        broker = self._cluster.any_broker(lambda one: not one.is_running)
        if broker is None or not self._faults.may_change_leaders():
            return None
        return self._faults.accuse(broker)

    def take_back(self) -> object:
        """A broker that was considered dead responds to the controller."""
        cluster = self._cluster
        broker = cluster.any_broker(lambda one: cluster.is_awake(one) and one.has_session)
        if broker is None:
            return None
        epoch = broker.fence.broker_epoch
        return self._as_controller(lambda role: role.take_back(broker.id, epoch))

    def register(self) -> object:
        """A broker opens a session, because its last one expired or never opened."""
        cluster = self._cluster
        broker = cluster.any_broker(lambda one: cluster.reaches_store(one) and not one.has_session)
        if broker is None:
            return None
        broker.register()
        return broker.id, broker.fence.broker_epoch

    # The controller

    def elect_controller(self) -> object:
        cluster = self._cluster
        if cluster.store.controller_id is not None:
            return None
        broker = cluster.any_broker(lambda one: cluster.reaches_store(one) and one.has_session)
        if broker is None or not self._faults.may_change_leaders():
            return None
        elected: list[bool] = []
        problem = cluster.in_broker(broker, lambda: elected.append(broker.stand_for_election()))
        return broker.id, elected, problem

    def resign(self) -> object:
        """A controller notices that its session expired or that another one was elected."""
        broker = self._cluster.any_broker(
            lambda one: (
                one.controller is not None
                and self._cluster.is_awake(one)
                and self._cluster.store.controller_id != one.id
            )
        )
        if broker is None:
            return None
        broker.controller = None
        return broker.id

    def look_at_brokers(self) -> object:
        if not self._faults.may_change_leaders() and self._random.random() < 0.5:
            return None
        return self._as_controller(lambda role: role.look_at_brokers())

    def tell(self) -> object:
        broker_id = self._random.choice(self._cluster.plan.broker_ids)
        return self._as_controller(lambda role: role.tell(broker_id))

    def elect_preferred(self) -> object:
        if not self._faults.may_change_leaders():
            return None
        return self._as_controller(lambda role: role.elect_preferred())

    def elect_uncleanly(self) -> object:
        keys = [
            key for key in self._cluster.plan.keys if not self._cluster.plan.topic(key[0]).is_clean
        ]
        if not keys or not self._faults.may_change_leaders():
            return None
        return self._as_controller(lambda role: role.elect_uncleanly(keys))

    def move_leader(self) -> object:
        if not self._faults.may_change_leaders():
            return None
        key = self._random.choice(self._cluster.plan.keys)
        leader = self._random.choice(self._cluster.truth(key).replicas)
        return self._as_controller(lambda role: role.move_leader(key, leader))

    def reassign(self) -> object:
        """Moves a partition to other brokers, or cancels a move."""
        if not self._faults.may_change_leaders():
            return None
        key = self._random.choice(self._cluster.plan.keys)
        if any(key in broker.lost_data_in for broker in self._cluster.brokers):
            return None
        factor = len(self._cluster.plan.replicas(key))
        target = tuple(self._random.sample(self._cluster.plan.broker_ids, factor))
        wanted = None if self._random.random() < 0.2 else target
        return key, wanted, self._as_controller(lambda role: role.reassign(key, wanted))

    def _as_controller(self, do: Callable[[SimulatedController], None]) -> object:
        """Runs an action of the controller, or of a broker that still believes it is."""
        cluster = self._cluster
        broker = cluster.any_broker(
            lambda one: one.controller is not None and cluster.reaches_store(one)
        )
        if broker is None:
            return None
        return broker.id, cluster.in_broker(broker, lambda: broker.as_controller(do))

    # Healing

    def restart(self) -> object:
        cluster = self._cluster
        broker = cluster.any_broker(lambda one: not one.is_running)
        if broker is None:
            return None
        broker.start()
        if cluster.reaches_store(broker):
            broker.register()
        return broker.id, broker.fence.broker_epoch

    def resume(self) -> object:
        broker = self._cluster.any_broker(lambda one: one.is_running and one.is_paused)
        if broker is None:
            return None
        broker.is_paused = False
        return broker.id

    def heal_link(self) -> object:
        links = self._cluster.network.cut_links
        return links.pop(self._random.randrange(len(links))) if links else None

    def free_disk(self) -> object:
        broker = self._cluster.any_broker(lambda one: one.files.faults.space_bytes is not None)
        if broker is None:
            return None
        broker.files.faults.space_bytes = None
        return broker.id
