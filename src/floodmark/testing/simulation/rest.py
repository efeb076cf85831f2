"""Brings a simulated cluster to rest and checks the result.

Everything heals. Then all replicas must be in sync, all producers done, and all consumers at the
end.
"""

from __future__ import annotations

from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.testing.simulation.cluster import Cluster
from floodmark.testing.simulation.producers import Outcome
from floodmark.vocabulary import TopicPartition

_ROUNDS = 150
_ROUND_MS = 50


class NotAtRest(AssertionError):
    """The cluster did not recover even though every fault was healed."""


def come_to_rest(cluster: Cluster) -> None:
    _heal(cluster)
    for _ in range(_ROUNDS):
        _quiet_round(cluster)
        if _is_at_rest(cluster):
            break
    else:
        raise NotAtRest(f"comes-to-rest: {_state(cluster)}")
    for key in cluster.plan.keys:
        _replicas_are_equal(cluster, key)
    _committed_transactions_were_read(cluster)


def _heal(cluster: Cluster) -> None:
    cluster.network.cut_links.clear()
    cluster.store.loses_next_answer = False
    cluster.store.writes_until_lost = None
    for broker in cluster.brokers:
        broker.files.crash_after = None
        broker.files.faults.space_bytes = None
        broker.is_paused = False
        if broker.controller is not None:
            broker.controller.dies_after_write = False
        if not broker.is_running:
            broker.start()
        if not broker.has_session:
            broker.register()
    for session, broker_id in list(cluster.store.sessions.items()):
        if cluster.brokers[broker_id - 1].session != session:
            cluster.store.end_session(session)


def _quiet_round(cluster: Cluster) -> None:
    cluster.clock.advance(_ROUND_MS)
    _lead_the_cluster(cluster)
    for broker in cluster.brokers:
        broker.following.fetch_all(cluster.random)
        broker.leading.review_isr()
        broker.background.finish()
        broker.tick()
    for producer in cluster.clients:
        producer.tick(cluster.leader_of, cluster.random, may_begin=False)
    for consumer in cluster.consumers:
        leader = cluster.leader_of(consumer.key)
        consumer.tick(leader, cluster.random, from_follower=False)
    cluster.settle()
    for _ in range(len(cluster.network.in_flight)):
        cluster.arrive(cluster.network.take_first())
        cluster.settle()


def _lead_the_cluster(cluster: Cluster) -> None:
    controller_id = cluster.store.controller_id
    for broker in cluster.brokers:
        if broker.controller is not None and broker.id != controller_id:
            broker.controller = None
    if controller_id is None:
        cluster.brokers[0].stand_for_election()
        return
    leader: SimulatedBroker = cluster.brokers[controller_id - 1]
    leader.as_controller(lambda role: role.look_at_brokers())
    for broker in cluster.brokers:
        answered = (broker.id, broker.fence.broker_epoch)
        leader.as_controller(lambda role, who=answered: role.take_back(*who))  # type: ignore[misc]
    for broker_id in cluster.plan.broker_ids:
        leader.as_controller(lambda role, told=broker_id: role.tell(told))  # type: ignore[misc]


def _is_at_rest(cluster: Cluster) -> bool:
    return all(client.is_idle for client in cluster.clients) and all(
        _is_partition_at_rest(cluster, key) for key in cluster.plan.keys
    )


def _is_partition_at_rest(cluster: Cluster, key: TopicPartition) -> bool:
    replicas = cluster.truth(key).replicas
    offsets: set[int] = set()
    for broker in cluster.brokers:
        replica = broker.replicas.find(key)
        if broker.id not in replicas:
            continue  # It may hold one that has moved away, and have missed that.
        if replica is None:
            return False
        offsets |= {replica.log.log_end_offset, replica.core.high_watermark}
    offsets |= {c.next_offset for c in cluster.consumers if c.key == key}
    return len(offsets) == 1 and set(cluster.truth(key).isr) == set(replicas)


def _replicas_are_equal(cluster: Cluster, key: TopicPartition) -> None:
    history = cluster.invariants.history(key)
    for broker in cluster.brokers:
        replica = broker.replicas.find(key)
        if replica is not None and broker.id in cluster.truth(key).replicas:
            view = cluster.invariants.view_of(broker, key)
            if view.end_offset != history.end_offset:
                raise NotAtRest(f"comes-to-rest: {key} of broker {broker.id} ends elsewhere")
            log_start_offset = replica.log.log_start_offset
            history.same(f"broker {broker.id}", view, log_start_offset, history.end_offset)


def _committed_transactions_were_read(cluster: Cluster) -> None:
    """A consumer that reads everything sees every committed transaction in full."""
    for consumer in cluster.consumers:
        if not consumer.is_read_committed or consumer.has_skipped:
            continue
        for producer in cluster.transactional:
            for producer_epoch, outcome in producer.outcomes.items():
                values = producer.values[producer_epoch].get(consumer.key, [])
                if outcome is Outcome.COMMITTED and not consumer.values.issuperset(values):
                    raise NotAtRest(
                        f"committed-is-seen-whole: {values} of {consumer.key} were not read"
                    )


def _state(cluster: Cluster) -> str:
    lines = [f"{key}: {truth}" for key, truth in cluster.store.truth.items()]
    for broker in cluster.brokers:
        for replica in broker.replicas.replicas:
            core = replica.core
            lines.append(
                f"broker {broker.id} has {replica.key} up to {replica.log.log_end_offset} with "
                f"high watermark {core.high_watermark}, proposal {core.proposal}, {core.leadership}"
            )
    waiting = [c.id for c in cluster.clients if not c.is_idle]
    reading = [(c.id, c.next_offset) for c in cluster.consumers]
    return "\n".join([*lines, f"producers at work: {waiting}, consumers: {reading}"])
