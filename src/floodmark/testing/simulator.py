"""Whole clusters of real cores in one process, on a virtual clock, by a seeded schedule.

PUBLIC. `Simulation(seed).run()` takes a few hundred steps. Each is one thing that could happen next
in a cluster: a message arrives, is lost or repeated; a client or a follower does its next round; a
broker crashes between or in the middle of its steps, loses power, comes back; a session expires
under a broker that lives; a link is cut. After every step all invariants are checked. In the end
everything heals, and the cluster must come to rest with all replicas in sync.

A seed gives the same schedule for ever (for the same code). A failure carries its seed and the last
steps; `Simulation(seed).run()` repeats it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from floodmark.replication.replica import ACKS_ALL
from floodmark.storage.errors import DiskFull, LogDirFailure
from floodmark.testing.crashing_files import CrashNow
from floodmark.testing.invariants import Invariants
from floodmark.testing.simulated_broker import SimulatedBroker
from floodmark.testing.simulated_clients import SimulatedConsumer, SimulatedProducer
from floodmark.testing.simulated_controller import SimulatedController
from floodmark.testing.simulated_network import (
    CONTROLLER,
    AlterPartition,
    ConsumerFetchAnswer,
    Message,
    ProduceAnswer,
    SimulatedNetwork,
)
from floodmark.testing.virtual_clock import VirtualClock

DEFAULT_STEPS: Final = 600
_SHOWN_STEPS: Final = 80
_ROUNDS_TO_REST: Final = 120
_LAGS_MAX_MS: Final = (60.0, 150.0, 400.0)
_FIRST_CLIENT: Final = 101
_CRASH_WITHIN_OPERATIONS: Final = 12
_SPACE_LEFT_BYTES: Final = 300

# Of all steps: with few arrivals messages pile up, get old and overtake each other.
_SHARES_OF_ARRIVALS: Final = (0.4, 0.5, 0.6)
# How often what else happens, relative to each other; the seed makes faults more or less likely.
_WORK: Final = {
    "fetch": 120,
    "produce": 110,
    "consume": 15,
    "review_isr": 50,
    "tell": 30,
    "restart": 50,
    "register": 35,
    "heal_link": 30,
    "expire_dead": 25,
    "checkpoint": 10,
    "flush": 8,
    "free_disk": 30,
}
_FAULTS: Final = {
    "drop": 30,
    "repeat": 30,
    "kill": 8,
    "crash_within": 8,
    "fill_disk": 5,
    "lose_power": 6,
    "stop": 4,
    "expire_live": 6,
    "cut_link": 8,
    "elect_preferred": 5,
    "move_leader": 20,
}


class SimulationFailure(AssertionError):
    """An invariant did not hold, or the cluster's code raised: with seed and schedule."""


class Simulation:
    def __init__(
        self,
        seed: int,
        *,
        brokers: int | None = None,
        steps: int = DEFAULT_STEPS,
        weather: Mapping[str, int] | None = None,
        broker_class: type[SimulatedBroker] = SimulatedBroker,
    ) -> None:
        """`weather` are the weights of faults by name, in place of those that the seed chooses."""
        self.seed = seed
        self.steps = steps
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.network = SimulatedNetwork()
        self.invariants = Invariants()
        self._schedule: deque[tuple[int, str, object]] = deque(maxlen=_SHOWN_STEPS)
        self._step = 0
        count = brokers or self.random.choice((1, 2, 3, 3, 3))
        min_in_sync_replicas = self.random.randint(1, min(count, 2))
        lag_max_ms = self.random.choice(_LAGS_MAX_MS)
        self.brokers = [
            broker_class(number + 1, self.clock, min_in_sync_replicas, lag_max_ms)
            for number in range(count)
        ]
        self.controller = SimulatedController(
            [broker.id for broker in self.brokers], self.network.send
        )
        self.producers = [
            SimulatedProducer(_FIRST_CLIENT + number, acks, self.clock, self.network.send)
            for number, acks in enumerate((ACKS_ALL, ACKS_ALL, ACKS_ALL, 1, 1))
        ]
        self.consumer = SimulatedConsumer(_FIRST_CLIENT + 10, self.network.send)
        self._share_of_arrivals = self.random.choice(_SHARES_OF_ARRIVALS)
        self._actions, self._weights = self._choose_weights(weather)

    def _choose_weights(
        self, weather: Mapping[str, int] | None
    ) -> tuple[list[Callable[[], object]], list[int]]:
        """Every seed has its own weather: faults that never happen in it, faults that often do."""
        weights = dict(_WORK)
        for name, weight in _FAULTS.items():
            chosen = weight * self.random.choice((0, 1, 1, 3, 8))
            weights[name] = chosen if weather is None else weather.get(name, 0)
        actions = [getattr(self, f"_{name}") for name in weights]
        return actions, list(weights.values())

    # Running

    def run(self) -> None:
        try:
            for broker in self.brokers:
                broker.start()
                broker.broker_epoch = self.controller.register(broker.id)
            while self._step < self.steps:
                self._take_step()
            self._come_to_rest()
        except Exception as problem:
            raise SimulationFailure(self._report(problem)) from problem

    def _take_step(self) -> None:
        self._step += 1
        self.clock.advance(self.random.randint(1, 20))
        if self.network.in_flight and self.random.random() < self._share_of_arrivals:
            action: Callable[[], object] = self._deliver
        else:
            (action,) = self.random.choices(self._actions, self._weights)
        subject = action()
        if subject is not None:
            self._note(action.__name__[1:], subject)
        for broker in self.brokers:
            if broker.running:
                self._in_broker(broker, broker.expire_waiting)
        self._settle()

    def _settle(self) -> None:
        """The end of a step: what brokers have to say leaves them, and the invariants hold."""
        truth = self.controller.partition
        for broker in self.brokers:
            lost_in_epoch = broker.lost_data_in_epoch
            if (
                lost_in_epoch is not None
                and broker.id not in truth.isr
                and not self.controller.has_session(broker.id, lost_in_epoch)
            ):
                broker.lost_data_in_epoch = None
        self.invariants.check(self.brokers, truth)
        for broker in self.brokers:
            for message in broker.outbox:
                self.network.send(message)
            broker.outbox.clear()
            broker.acknowledged.clear()

    def _in_broker(self, broker: SimulatedBroker, do: Callable[[], object]) -> None:
        """Runs a step of a broker, which may die in the middle of it: then nothing gets out.

        On a full disk the step fails and the broker lives on, without an answer to give; where the
        disk leaves the log in doubt it ends, as a broker does without a log folder.
        """
        try:
            do()
        except DiskFull:
            self._note("disk full", broker.id)
        except (CrashNow, LogDirFailure) as end:
            self._note("died", (broker.id, end))
            broker.kill()

    def _note(self, name: str, subject: object) -> None:
        self._schedule.append((self._step, name, subject))

    def _report(self, problem: Exception) -> str:
        lines = [f"  {step:4} {name}: {subject}" for step, name, subject in self._schedule]
        return (
            f"seed {self.seed} fails at step {self._step}: {problem}\n"
            f"repeat it with: pytest tests/simulation --seed {self.seed}\n"
            f"truth: {self.controller.partition}\n"
            f"the last steps of its schedule:\n" + "\n".join(lines)
        )

    # The network

    def _deliver(self) -> object:
        return self._arrive(self.network.take(self.random))

    def _arrive(self, message: Message) -> Message:
        source, target, payload = message
        if self.network.is_cut(source, target):
            return message
        if target == CONTROLLER:
            if isinstance(payload, AlterPartition):
                self.controller.alter_partition(source, payload)
        elif target <= len(self.brokers):
            broker = self.brokers[target - 1]
            if broker.running:
                self._in_broker(broker, lambda: broker.receive(source, payload))
        elif isinstance(payload, ProduceAnswer):
            self.producers[target - _FIRST_CLIENT].answered(payload)
        elif isinstance(payload, ConsumerFetchAnswer):
            self.consumer.answered(payload)
            self.invariants.check_consumer(self.consumer)
        return message

    def _drop(self) -> object:
        return self.network.take(self.random) if self.network.in_flight else None

    def _repeat(self) -> object:
        if not self.network.in_flight:
            return None
        message = self.random.choice(self.network.in_flight)
        self.network.send(message)
        return message

    def _cut_link(self) -> object:
        nodes = [CONTROLLER, *(broker.id for broker in self.brokers)]
        one, other = self.random.sample(nodes, 2)
        self.network.cut(one, other)
        return one, other

    def _heal_link(self) -> object:
        links = self.network.cut_links
        return links.pop(self.random.randrange(len(links))) if links else None

    # Clients and the brokers' own rounds

    def _some_leader(self) -> int:
        """Whom a client takes for the leader: mostly the right one."""
        leader = self.controller.partition.leader
        if leader < 0 or self.random.random() < 0.15:
            return self.random.choice(self.brokers).id
        return leader

    def _produce(self) -> object:
        producer = self.random.choice(self.producers)
        producer.tick(self._some_leader(), self.random)
        return producer.id

    def _consume(self) -> object:
        self.consumer.tick(self._some_leader(), self.random)
        return self.consumer.next_offset

    def _any(self, is_wanted: Callable[[SimulatedBroker], bool]) -> SimulatedBroker | None:
        candidates = [broker for broker in self.brokers if is_wanted(broker)]
        return self.random.choice(candidates) if candidates else None

    def _at_one(
        self, do: Callable[[SimulatedBroker], object], *, leads: bool | None = None
    ) -> object:
        """A round of a running broker, or only of one that takes itself for leader or follower."""
        broker = self._any(lambda one: one.running and leads in (None, one.replica.core.is_leader))
        if broker is None:
            return None
        chosen = broker
        self._in_broker(chosen, lambda: do(chosen))
        return chosen.id

    def _fetch(self) -> object:
        return self._at_one(lambda broker: broker.fetch(self.random), leads=False)

    def _review_isr(self) -> object:
        return self._at_one(lambda broker: broker.review_isr(), leads=True)

    def _checkpoint(self) -> object:
        return self._at_one(lambda broker: broker.checkpoint())

    def _flush(self) -> object:
        return self._at_one(lambda broker: broker.flush())

    # The controller and its sessions

    def _tell(self) -> object:
        broker = self.random.choice(self.brokers)
        self.controller.tell(broker.id)
        return broker.id

    def _elect_preferred(self) -> object:
        if not self._may_take_another():
            return None
        self.controller.elect_preferred()
        return self.controller.partition

    def _move_leader(self) -> object:
        truth = self.controller.partition
        broker = self._any(
            lambda one: (
                one.id in truth.isr
                and one.id != truth.leader
                and self.controller.is_registered(one.id)
            )
        )
        if broker is None or not self._may_take_another():
            return None
        self.controller.move_leader(broker.id)
        return self.controller.partition

    def _register(self) -> object:
        """A broker without a session opens one: it has expired, or could not be opened yet."""
        broker = self._any(
            lambda one: one.running and not self.controller.has_session(one.id, one.broker_epoch)
        )
        return None if broker is None else self._open_session(broker)

    def _open_session(self, broker: SimulatedBroker) -> object:
        if self.network.is_cut(CONTROLLER, broker.id):
            return None
        broker.broker_epoch = self.controller.register(broker.id)
        return broker.id, broker.broker_epoch

    def _expire_dead(self) -> object:
        return self._expire(is_running=False)

    def _expire_live(self) -> object:
        return self._expire(is_running=True)

    def _expire(self, *, is_running: bool) -> object:
        broker = self._any(
            lambda one: one.running is is_running and self.controller.is_registered(one.id)
        )
        if broker is None or not self._may_take_another(broker):
            return None
        self.controller.expire(broker.id)
        return broker.id, self.controller.partition

    # Crashes

    def _may_take_another(self, victim: SimulatedBroker | None = None) -> bool:
        """While a disk that lost data counts as in sync, the others stay up: the last replica
        standing after a power loss is KIP-966's business, which no replica count can save."""
        return all(broker is victim or not broker.has_lost_data for broker in self.brokers)

    def _victim(self) -> SimulatedBroker | None:
        broker = self._any(lambda one: one.running)
        return broker if broker is not None and self._may_take_another(broker) else None

    def _kill(self) -> object:
        broker = self._victim()
        if broker is None:
            return None
        broker.kill()
        return broker.id

    def _crash_within(self) -> object:
        """The process dies after some more changes of its disk, wherever that is."""
        broker = self._victim()
        if broker is None:
            return None
        broker.files.crash_after = self.random.randint(0, _CRASH_WITHIN_OPERATIONS)
        return broker.id, broker.files.crash_after

    def _lose_power(self) -> object:
        broker = self._victim()
        isr = self.controller.partition.isr
        if broker is None or not any(
            other is not broker and other.id in isr and self._is_healthy(other)
            for other in self.brokers
        ):
            return None
        for other in self.brokers:
            other.files.crash_after = None
            other.files.faults.space_bytes = None
        # Not even its last words may make it the only one in sync.
        self.network.forget(broker.id, CONTROLLER)
        broker.lose_power(self.random)
        return broker.id

    def _is_healthy(self, broker: SimulatedBroker) -> bool:
        return broker.running and self.controller.has_session(broker.id, broker.broker_epoch)

    def _fill_disk(self) -> object:
        """The disk of a broker has room for a few more bytes; for none after a while."""
        broker = self._victim()
        if broker is None:
            return None
        broker.files.faults.space_bytes = self.random.randint(0, _SPACE_LEFT_BYTES)
        return broker.id

    def _free_disk(self) -> object:
        broker = self._any(lambda one: one.files.faults.space_bytes is not None)
        if broker is None:
            return None
        broker.files.faults.space_bytes = None
        return broker.id

    def _stop(self) -> object:
        broker = self._victim()
        if broker is None:
            return None
        self._in_broker(broker, broker.stop)
        return broker.id

    def _restart(self) -> object:
        broker = self._any(lambda one: not one.running)
        if broker is None:
            return None
        broker.start()
        return broker.id, self._open_session(broker)

    # The end

    def _come_to_rest(self) -> None:
        self.network.cut_links.clear()
        for broker in self.brokers:
            broker.files.crash_after = None
            broker.files.faults.space_bytes = None
            if not broker.running:
                broker.start()
            if not self.controller.has_session(broker.id, broker.broker_epoch):
                self._open_session(broker)
        for _ in range(_ROUNDS_TO_REST):
            self._quiet_round()
            if self._is_at_rest():
                break
        else:
            raise AssertionError(f"comes-to-rest: {self._state()}")
        invariants = self.invariants
        for broker in self.brokers:
            if invariants.view_of(broker).data != invariants.committed.data:
                raise AssertionError(f"comes-to-rest: broker {broker.id} differs")

    def _quiet_round(self) -> None:
        self._step += 1
        self.clock.advance(50)
        for broker in self.brokers:
            self.controller.tell(broker.id)
            broker.fetch(self.random)
            broker.review_isr()
            broker.expire_waiting()
        for producer in self.producers:
            producer.tick(self._some_leader(), self.random, may_begin=False)
        self.consumer.tick(self._some_leader(), self.random)
        self._settle()
        for _ in range(len(self.network.in_flight)):
            self._note("deliver", self._arrive(self.network.take_first()))
            self._settle()

    def _is_at_rest(self) -> bool:
        truth = self.controller.partition
        ends = {broker.replica.log.log_end_offset for broker in self.brokers}
        marks = {broker.replica.core.high_watermark for broker in self.brokers}
        return (
            len(truth.isr) == len(self.brokers)
            and all(producer.is_idle for producer in self.producers)
            and ends == marks == {self.consumer.next_offset}
        )

    def _state(self) -> str:
        return ", ".join(
            f"broker {broker.id} at {broker.replica.log.log_end_offset} with high watermark "
            f"{broker.replica.core.high_watermark} in {broker.replica.core.leadership}"
            for broker in self.brokers
        )
