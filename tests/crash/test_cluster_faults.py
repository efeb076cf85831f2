"""One broker of three is cut off, stands still, has a full disk or the wrong time, under load.

An idempotent producer sends and a group reads and commits all the while. After each fault both go
on, and in the end every promise held, record by record. `FLOODMARK_FAULT_ROUNDS` says how often
each fault strikes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from crash_kit.at_leaders import check_all, check_growth
from crash_kit.checker import Checker
from crash_kit.group_reader import GroupReader
from crash_kit.load import Load
from floodmark.testing import Cluster
from kit.seeds import seed
from kit.waiting import wait_for

ROUNDS = int(os.environ.get("FLOODMARK_FAULT_ROUNDS", "1"))
SEED = seed()
TOPIC = "replicated"
PARTITIONS = 1
SESSION_MS = 2000
LAG_MS = 1000
PROGRESS = 200
TEN_MINUTES_S = 600
BUSY_S = 2.0
"""What a machine that does other things as well may add."""

pytestmark = pytest.mark.timeout(max(120, ROUNDS * 60))


class World:
    """A cluster under load, and everybody who remembers what was promised."""

    def __init__(self, cluster: Cluster, load: Load, reader: GroupReader) -> None:
        self.cluster = cluster
        self.load = load
        self.reader = reader
        self.checker = Checker(TOPIC, PARTITIONS, SEED)
        self.random = Random(SEED)

    @property
    def leader(self) -> int:
        return self.cluster.leader_of(TOPIC, 0)

    @property
    def follower(self) -> int:
        leaders = {self.cluster.leader_of(TOPIC, index) for index in range(PARTITIONS)}
        return self.random.choice([one for one in self.cluster.ids if one not in leaders])

    def goes_on(self) -> None:
        """More is acknowledged, more is read, and all of it is right."""
        sent = len(self.load.acknowledged()) + PROGRESS
        wait_for(lambda: len(self.load.acknowledged()) >= sent, 60)
        read = sum(self.reader.seen.values()) + PROGRESS
        wait_for(lambda: sum(self.reader.seen.values()) >= read, 60)
        assert not self.load.problems
        self.reader.check()

    def loses_its_leadership(self, broker: int) -> None:
        wait_for(lambda: self.cluster.leader_of(TOPIC, 0) != broker)

    def heals(self) -> None:
        self.cluster.heal()
        self.cluster.wait_until_in_sync(TOPIC)
        check_growth(self.cluster, self.checker, self.load)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {"zookeeper.session.timeout.ms": SESSION_MS, "replica.lag.time.max.ms": LAG_MS}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(tmp_path_factory.mktemp("faults"), settings))
        cluster.create_topic(TOPIC, PARTITIONS, {"segment.bytes": 1048576})
        load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
        load.start()
        stack.callback(load.finish)
        reader = GroupReader(cluster.bootstrap_servers, TOPIC, "readers")
        stack.enter_context(reader)
        running = World(cluster, load, reader)
        running.goes_on()
        yield running
        load.finish()
        check_all(cluster, running.checker, load)
        reader.check()


def cut_off_from_followers(world: World) -> None:
    """It acknowledges nothing alone, and asks for them to be taken out."""
    leader = world.leader
    world.cluster.cut_off(leader, from_="followers")
    wait_for(lambda: world.cluster.in_sync_replicas(TOPIC, 0) == {leader})


def cut_off_from_brokers(world: World) -> None:
    """It has its session and nothing else: it stays the leader, and acknowledges nothing."""
    leader = world.leader
    world.cluster.cut_off(leader, from_="brokers")
    wait_for(lambda: len(world.load.acknowledged()) == stable_count(world.load))


def cut_off_from_clients(world: World) -> None:
    """Nobody can tell but the clients."""
    world.cluster.cut_off(world.leader, from_="clients")
    wait_for(lambda: len(world.load.acknowledged()) == stable_count(world.load))


def cut_off_from_the_store(world: World) -> None:
    """Its session ends and another broker leads. The controller tells it, so its clients go on."""
    leader = world.leader
    cut_off_at = time.monotonic()
    world.cluster.cut_off(leader, from_="store")
    world.loses_its_leadership(leader)
    acknowledged = len(world.load.acknowledged())
    wait_for(lambda: len(world.load.acknowledged()) > acknowledged)
    took_s = time.monotonic() - cut_off_at
    print(f"the load went on {took_s:.2f} s after its leader was cut off")
    assert took_s < SESSION_MS / 1000 + 1 + BUSY_S
    world.goes_on()


def paused_beyond_its_session(world: World) -> None:
    leader = world.leader
    paused_at = time.monotonic()
    world.cluster.pause(leader)
    world.loses_its_leadership(leader)
    took_s = time.monotonic() - paused_at
    print(f"another broker led {took_s:.2f} s after the leader stood still")
    assert took_s < SESSION_MS / 1000 + 1 + BUSY_S
    world.cluster.resume(leader)


def full_disk_of_a_follower(world: World) -> None:
    """It leaves the in-sync replicas, and nobody else notices."""
    follower = world.follower
    world.cluster.fill_disk(follower)
    wait_for(lambda: follower not in world.cluster.in_sync_replicas(TOPIC, 0))
    world.goes_on()
    world.cluster.fill_disk(follower, False)


def clock_ten_minutes_ahead(world: World) -> None:
    """Nobody is expelled, neither brokers nor members."""
    leader, assignments = world.leader, world.reader.assignments
    world.cluster.jump_clock(leader, TEN_MINUTES_S)
    world.goes_on()
    assert world.leader == leader
    assert world.reader.assignments == assignments
    world.cluster.jump_clock(leader, -TEN_MINUTES_S)
    world.goes_on()


def stable_count(load: Load) -> int:
    """How many records are acknowledged by now, if no more come for half a second."""
    before = len(load.acknowledged())
    try:
        wait_for(lambda: len(load.acknowledged()) > before, 0.5)
    except AssertionError:
        return before
    return -1


FAULTS: list[Callable[[World], None]] = [
    cut_off_from_followers,
    cut_off_from_brokers,
    cut_off_from_clients,
    cut_off_from_the_store,
    paused_beyond_its_session,
    full_disk_of_a_follower,
    clock_ten_minutes_ahead,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_load_and_group_go_on_after_a_broker_was(
    world: World, fault: Callable[[World], None]
) -> None:
    for _ in range(ROUNDS):
        fault(world)
        world.heals()
        world.goes_on()
