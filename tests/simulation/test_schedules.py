"""Clusters of one to three brokers under seeded schedules of faults: every promise holds."""

from __future__ import annotations

from collections import Counter

import pytest

from floodmark.testing.simulation import Simulation
from floodmark.testing.simulation.producers import Outcome


@pytest.mark.timeout(0)
def test_every_promise_holds_under_every_schedule(seeds: range) -> None:
    for seed in seeds:
        Simulation(seed).run()


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
