"""kill -9 of one broker of three under idempotent load, again and again, on either store.

Leaders, followers and controllers are hit alike; some brokers are stopped in order, and some stand
still for longer than their session lasts. On ZooKeeper, an ensemble of three, its leader is killed,
too. What was acknowledged by two replicas is there in the end, once, in order and at its offset.
`FLOODMARK_CLUSTER_ROUNDS` says how often somebody goes.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from random import Random

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.cluster import IDS, ProcessCluster
from kit.seeds import seed
from kit.zookeeper import Ensemble

ROUNDS = int(os.environ.get("FLOODMARK_CLUSTER_ROUNDS", "6"))
SEED = seed()

TOPIC = "replicated"
PARTITIONS = 4
LONGEST_LIFE_S = 1.0
LONGEST_ABSENCE_S = 1.0
SESSION_TIMEOUT_MS = 2000
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
IMPATIENT_SHARE = 0.3
"""How often the next one goes before the last one is in sync again."""


class Kind(Enum):
    KILL = "kill -9"
    STOP = "orderly stop"
    PAUSE = "a pause beyond the session"
    KILL_ZOOKEEPER = "kill -9 of ZooKeeper's leader"


WEIGHTS = {Kind.KILL: 5, Kind.STOP: 2, Kind.PAUSE: 2, Kind.KILL_ZOOKEEPER: 2}


@contextmanager
def on_shared_folder(folder: Path) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster(folder, SETTINGS)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def on_zookeeper(folder: Path) -> Iterator[ProcessCluster]:
    with Ensemble(folder / "zookeeper") as ensemble:
        cluster = ProcessCluster(folder, SETTINGS, zookeeper=f"{ensemble.hosts}/kafka")
        cluster.ensemble = ensemble
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.mark.timeout(max(300, ROUNDS * 30))
@pytest.mark.parametrize("store", [on_shared_folder, on_zookeeper])
def test_nothing_acknowledged_by_two_replicas_is_lost_or_repeated(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[ProcessCluster]]
) -> None:
    print(f"FLOODMARK_SEED={SEED} FLOODMARK_CLUSTER_ROUNDS={ROUNDS}")
    random = Random(SEED)
    with store(tmp_path) as cluster:
        load = Load(cluster.bootstrap, TOPIC, PARTITIONS, SEED)
        checker = Checker(TOPIC, PARTITIONS, SEED)
        asyncio.run(create_topic(cluster.bootstrap))
        load.start()
        try:
            for number in range(ROUNDS):
                time.sleep(random.uniform(0, LONGEST_LIFE_S))
                kind = drawn(random, cluster)
                print(f"round {number}: {kind.value}")
                strike(kind, cluster, random)
                if random.random() >= IMPATIENT_SHARE:
                    cluster.wait_until_in_sync(TOPIC)
                assert not load.problems
            cluster.wait_until_in_sync(TOPIC)
        finally:
            load.finish()
        assert not load.problems
        asyncio.run(checker.check_all(cluster.leaders(TOPIC), load))
        print(f"{ROUNDS} rounds, {checker.records} records, all as promised")


def drawn(random: Random, cluster: ProcessCluster) -> Kind:
    kinds = [kind for kind in Kind if kind is not Kind.KILL_ZOOKEEPER or cluster.ensemble]
    return random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]


def strike(kind: Kind, cluster: ProcessCluster, random: Random) -> None:
    broker_id = random.choice(IDS)
    process = cluster.processes[broker_id]
    absence_s = random.uniform(0, LONGEST_ABSENCE_S)
    if kind is Kind.PAUSE:
        process.freeze()
        time.sleep(SESSION_TIMEOUT_MS / 1000 + absence_s)
        process.thaw()
    elif kind is Kind.KILL_ZOOKEEPER:
        assert cluster.ensemble is not None
        server = cluster.ensemble.leader()
        server.stop()
        time.sleep(absence_s)
        server.start()
    else:
        (process.stop if kind is Kind.STOP else process.kill)()
        time.sleep(absence_s)
        cluster.start(broker_id)
    cluster.wait_until_up()


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        configs = {"min.insync.replicas": "2", "segment.bytes": "1048576"}
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, len(IDS), configs=configs))
