"""Clusters of one to three brokers under seeded schedules of faults: every promise holds."""

from __future__ import annotations

import pytest

from floodmark.testing.simulator import Simulation


@pytest.mark.timeout(0)
def test_every_promise_holds_under_every_schedule(seeds: range) -> None:
    for seed in seeds:
        Simulation(seed).run()


def test_a_seed_gives_the_same_schedule_again() -> None:
    def played(seed: int) -> tuple[object, ...]:
        simulation = Simulation(seed)
        simulation.run()
        return (
            simulation.controller.partition,
            simulation.invariants.committed.data,
            simulation.clock.now_ms(),
        )

    assert played(7) == played(7)


def test_schedules_are_worth_something() -> None:
    """Records are acknowledged, leaders change, brokers come back: not an idle cluster."""
    simulations = [Simulation(seed, brokers=3) for seed in range(10)]
    for simulation in simulations:
        simulation.run()
    assert sum(simulation.invariants.acknowledged for simulation in simulations) > 50
    assert sum(simulation.controller.partition.leader_epoch for simulation in simulations) > 30
    assert sum(broker.incarnation for s in simulations for broker in s.brokers) > 60
