"""Clusters of one to three brokers under seeded schedules of faults: every promise holds."""

from __future__ import annotations

from collections import Counter

import pytest

from floodmark.testing.simulation import Simulation
from floodmark.testing.simulation.producers import Outcome
from kit.seeds import seeds


@pytest.mark.timeout(0)
def test_every_promise_holds_under_every_schedule(seeds: range) -> None:
    for seed in seeds:
        Simulation(seed).run()


@pytest.mark.parametrize(
    "seed",
    [
        # The store was lost between the leaderships of a dead broker and the note of its death.
        60000109,
        # A follower kept a batch of an earlier epoch below the log start offset.
        60000548,
        # A log was cut below its high watermark (unclean), and a crash brought the old one back.
        866583149053,
        # An unclean leader ended before the log start of a follower, which kept its start.
        414772547186,
        # A diverged log ended inside the batch in which its leader's log started.
        749521158056,
        # Two in-sync replicas had restarted unnoticed, and the one that had lost records stayed.
        880000001032,
    ],
)
def test_a_schedule_that_once_failed_passes(seed: int) -> None:
    Simulation(seed).run()


DELETING = {"delete_records": 200, "lose_power": 60, "move_leader": 60, "kill": 40, "cut_link": 20}
"""Log starts inside batches, and replicas that begin there."""


@pytest.mark.parametrize("seed", [5057, 5088, 5142])
def test_an_unclean_leader_may_begin_inside_a_batch_that_was_deleted(seed: int) -> None:
    """A replica that has begun at its leader's log start, and is elected before it has records."""
    weather = DELETING | {"elect_uncleanly": 60}
    Simulation(seed, brokers=3, weather=weather, topics={"is_clean": False}).run()


@pytest.mark.parametrize(
    "seed",
    [
        # A broker lost power twice before it registered.
        60030,
        # A log restarted with the batch before its start, whose write a power loss tore.
        60093,
    ],
)
def test_a_schedule_of_deletions_that_once_failed_passes(seed: int) -> None:
    Simulation(seed, brokers=3, weather=DELETING, topics={"is_clean": True}).run()


MOVING = {
    "reassign": 60,
    "move_leader": 60,
    "kill": 20,
    "lose_power": 20,
    "crash_controller": 20,
    "lose_store_within": 20,
    "expire_live": 20,
    "pause": 20,
    "stop": 20,
    "drop": 30,
    "repeat": 60,
}


@pytest.mark.parametrize("seed", seeds(8))
def test_every_promise_holds_while_partitions_move_between_brokers(seed: int) -> None:
    Simulation(seed, brokers=4, weather=MOVING).run()


def test_a_seed_gives_the_same_schedule_again() -> None:
    def played(seed: int) -> tuple[object, ...]:
        simulation = Simulation(seed)
        simulation.run()
        cluster = simulation.cluster
        histories = [cluster.invariants.history(key).data for key in cluster.plan.keys]
        return cluster.store.truth, histories, cluster.clock.now_ms()

    assert played(7) == played(7)


def test_schedules_are_worth_something() -> None:
    """Records are acknowledged, leaders change, brokers come back: not an idle cluster."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        simulation = Simulation(seed, brokers=3)
        simulation.run()
        cluster = simulation.cluster
        truths = cluster.store.truth.values()
        outcomes = [o for producer in cluster.transactional for o in producer.outcomes.values()]
        seen["acknowledged"] += cluster.invariants.acknowledged
        seen["leader epochs"] += sum(truth.leader_epoch for truth in truths)
        seen["changes"] += sum(truth.partition_epoch for truth in truths)
        seen["lives"] += sum(broker.incarnation for broker in cluster.brokers)
        seen["unclean elections"] += len(cluster.store.unclean_epochs)
        seen["committed"] += outcomes.count(Outcome.COMMITTED)
        seen["aborted"] += outcomes.count(Outcome.ABORTED)
        seen["controllers"] += cluster.store.elections
    for seed in range(10):
        # Seldom elsewhere: records are deleted before a consumer has come to them.
        weather, topics = {"delete_records": 100}, {"retention_bytes": 2500}
        simulation = Simulation(seed, brokers=3, weather=weather, topics=topics)
        simulation.run()
        seen["skipped"] += sum(one.has_skipped for one in simulation.cluster.consumers)
    wanted = {
        "acknowledged": 400,
        "leader epochs": 200,
        "changes": 400,
        "lives": 250,
        "unclean elections": 3,
        "committed": 40,
        "aborted": 20,
        "skipped": 5,
        "controllers": 60,
    }
    assert {name: seen[name] for name in wanted if seen[name] < wanted[name]} == {}
