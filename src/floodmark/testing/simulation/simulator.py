"""Runs a simulated cluster by a seeded schedule.

`Simulation(seed).run()` takes a few hundred steps. Each step is one possible event: a message
arrives, is lost or repeated; a client, leader, follower or controller runs its next round; a broker
crashes between or within steps, loses power, pauses or returns; a live broker's session expires; a
link is cut. All invariants are checked after every step. At the end everything heals, and the
cluster must come to rest.

For the same code, a seed always gives the same schedule. A failure carries its seed and the last
steps, and `Simulation(seed).run()` repeats it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from floodmark.testing.simulation.cluster import Cluster
from floodmark.testing.simulation.faults import Faults
from floodmark.testing.simulation.rest import come_to_rest
from floodmark.testing.simulation.work import Work

DEFAULT_STEPS: Final = 900
_SHOWN_STEPS: Final = 80

# Share of all steps: with few arrivals, messages pile up, age and overtake each other.
_SHARES_OF_ARRIVALS: Final = (0.6, 0.7, 0.75)
# Relative weights of other events. The seed makes faults more or less likely.
_WORK: Final = {
    "fetch": 300,
    "produce": 300,
    "consume": 60,
    "review_isr": 80,
    "disk": 160,
    "look_at_brokers": 160,
    "tell": 40,
    "elect_controller": 120,
    "resign": 40,
    "restart": 120,
    "resume": 60,
    "register": 120,
    "heal_link": 60,
    "expire_dead": 60,
    "checkpoint": 20,
    "flush": 12,
    "retain": 12,
    "free_disk": 60,
}
_FAULTS: Final = {
    "drop": 30,
    "repeat": 30,
    "kill": 8,
    "crash_within": 8,
    "crash_controller": 5,
    "fill_disk": 5,
    "lose_power": 8,
    "stop": 4,
    "pause": 6,
    "expire_live": 6,
    "lose_answer": 4,
    "cut_link": 8,
}
# Administrator changes rather than faults; the seed weighs them the same way.
_CHANGES: Final = {
    "elect_preferred": 5,
    "move_leader": 20,
    "elect_uncleanly": 6,
    "delete_records": 6,
}
# Proof of death, the recovery from a false one, and losing the store within a decision. Drawn
# separately, so that the schedules of older seeds do not change.
_DRAWN_APART: Final = {
    "accuse_dead": 20,
    "accuse_live": 10,
    "take_back": 30,
    "lose_store_within": 6,
}
# Limits on what a controller stores at once; a partition state takes about 150 bytes.
_LIMITS_OF_MULTIS: Final = (None, 200, 400)


class SimulationFailure(AssertionError):
    """An invariant failed or the cluster's code raised. Includes seed and schedule."""


class Simulation:
    def __init__(
        self,
        seed: int,
        *,
        brokers: int | None = None,
        steps: int = DEFAULT_STEPS,
        weather: Mapping[str, int] | None = None,
        topics: Mapping[str, object] | None = None,
    ) -> None:
        """`weather` overrides weights of faults and changes, `topics` values of `TopicPlan`.

        The seed chooses the rest.
        """
        self.seed = seed
        self.steps = steps
        self.cluster = Cluster(Random(seed), brokers, topics or {})
        self._random = self.cluster.random
        self._schedule: deque[tuple[int, str, object]] = deque(maxlen=_SHOWN_STEPS)
        self._step = 0
        self._faults = Faults(self.cluster)
        self._work = Work(self.cluster, self._faults)
        self._share_of_arrivals = self._random.choice(_SHARES_OF_ARRIVALS)
        self._names, self._actions, self._weights = self._choose_weights(weather)

    def _choose_weights(
        self, weather: Mapping[str, int] | None
    ) -> tuple[list[str], dict[str, Callable[[], object]], list[int]]:
        """Every seed has its own weather: some faults never happen, others often."""
        weights = dict(_WORK)
        for name, weight in (_FAULTS | _CHANGES).items():
            chosen = weight * self._random.choice((0, 0, 1, 2, 4))
            weights[name] = chosen if weather is None else 0
        apart = Random(self.seed)
        for name, weight in _DRAWN_APART.items():
            weights[name] = weight * apart.choice((0, 1, 2, 4)) if weather is None else 0
        limit_bytes = apart.choice(_LIMITS_OF_MULTIS)
        is_cut = weather is None or "lose_store_within" in weather
        self.cluster.store.multi_limit_bytes = limit_bytes if is_cut else None
        weights |= weather or {}
        actions = {
            name: getattr(self._faults if hasattr(self._faults, name) else self._work, name)
            for name in weights
        }
        return list(weights), actions, list(weights.values())

    def run(self) -> None:
        try:
            self._start()
            while self._step < self.steps:
                self._take_step()
            come_to_rest(self.cluster)
        except Exception as problem:
            raise SimulationFailure(self._report(problem)) from problem
        finally:
            self.cluster.close()

    def _start(self) -> None:
        for broker in self.cluster.brokers:
            broker.start()
            broker.register()
        self._random.choice(self.cluster.brokers).stand_for_election()
        self.cluster.settle()

    def _take_step(self) -> None:
        self._step += 1
        cluster = self.cluster
        cluster.clock.advance(self._random.randint(1, 20))
        if cluster.network.in_flight and self._random.random() < self._share_of_arrivals:
            name, outcome = "deliver", self._deliver()
        else:
            (name,) = self._random.choices(self._names, self._weights)
            outcome = self._actions[name]()
        if outcome is not None:
            self._schedule.append((self._step, name, outcome))
        for broker in cluster.brokers:
            if cluster.is_awake(broker):
                cluster.in_broker(broker, broker.tick)
        cluster.settle()

    def _deliver(self) -> object:
        """Delivers the next message. Messages for a paused broker wait in its socket."""
        cluster = self.cluster
        message = cluster.network.take(self._random)
        if message.target <= len(cluster.brokers) and cluster.brokers[message.target - 1].is_paused:
            cluster.network.send(message)
            return None
        problem = cluster.arrive(message)
        return message if problem is None else f"{problem}: {message}"

    def _report(self, problem: Exception) -> str:
        lines = [f"  {step:4} {name}: {subject}" for step, name, subject in self._schedule]
        truths = [f"  {key}: {truth}" for key, truth in self.cluster.store.truth.items()]
        return "\n".join(
            [
                f"seed {self.seed} fails at step {self._step}: {problem}",
                f"reproduce with: pytest tests/simulation --seed {self.seed}",
                f"the plan: {self.cluster.plan}",
                "the actual state:",
                *truths,
                "the last steps of its schedule:",
                *lines,
            ]
        )
