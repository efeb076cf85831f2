"""kill -9 of one broker of three under idempotent load, again and again, on either store.

Leaders, followers, controllers and group coordinators are hit alike; some brokers are stopped in
order, and some stand still for longer than their session lasts. On ZooKeeper, an ensemble of three,
its leader is killed, too. What was acknowledged by two replicas is there in the end, once, in order
and at its offset; a group reads on without a gap, and keeps what it has committed.
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
from crash_kit.group_reader import GroupReader
from crash_kit.load import Load
from floodmark.testing import Cluster
from kit.cluster import leader_ports
from kit.seeds import seed
from kit.waiting import wait_for
from kit.zookeeper import Ensemble

ROUNDS = int(os.environ.get("FLOODMARK_CLUSTER_ROUNDS", "6"))
SEED = seed()

TOPIC = "replicated"
PARTITIONS = 4
LONGEST_LIFE_S = 1.0
LONGEST_ABSENCE_S = 1.0
SESSION_TIMEOUT_MS = 2000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    # A broker may start while ZooKeeper elects its leader on a busy machine.
    "zookeeper.connection.timeout.ms": "30000",
}
IMPATIENT_SHARE = 0.3
"""How often the next one goes before the last one is in sync again."""


class Kind(Enum):
    KILL = "kill -9"
    STOP = "orderly stop"
    PAUSE = "a pause beyond the session"
    KILL_ZOOKEEPER = "kill -9 of ZooKeeper's leader"


WEIGHTS = {Kind.KILL: 5, Kind.STOP: 2, Kind.PAUSE: 2, Kind.KILL_ZOOKEEPER: 2}


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    yield None


@contextmanager
def zookeeper(folder: Path) -> Iterator[Ensemble]:
    with Ensemble(folder / "zookeeper") as ensemble:
        yield ensemble


@pytest.mark.timeout(max(300, ROUNDS * 30))
@pytest.mark.parametrize("store", [shared_folder, zookeeper])
def test_nothing_acknowledged_by_two_replicas_is_lost_or_repeated(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[Ensemble | None]]
) -> None:
    print(f"FLOODMARK_SEED={SEED} FLOODMARK_CLUSTER_ROUNDS={ROUNDS}")
    with store(tmp_path) as ensemble:
        connect = {} if ensemble is None else {"zookeeper.connect": f"{ensemble.hosts}/kafka"}
        with Cluster(tmp_path, SETTINGS | connect) as cluster:
            cluster.create_topic(TOPIC, PARTITIONS, {"segment.bytes": 1048576})
            run_rounds(cluster, ensemble)


def run_rounds(cluster: Cluster, ensemble: Ensemble | None) -> None:
    random = Random(SEED)
    load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    load.start()
    try:
        with GroupReader(cluster.bootstrap_servers, TOPIC, "readers") as reader:
            for number in range(ROUNDS):
                time.sleep(random.uniform(0, LONGEST_LIFE_S))
                kind = drawn(random, ensemble)
                print(f"round {number}: {kind.value}")
                strike(kind, cluster, ensemble, random)
                if random.random() >= IMPATIENT_SHARE:
                    cluster.wait_until_in_sync(TOPIC)
                assert not load.problems
                reader.check()
            load.finish()
            sent = len(load.acknowledged())
            wait_for(lambda: sum(reader.seen.values()) >= sent, 60)
            reader.check()
    finally:
        load.finish()
    cluster.wait_until_in_sync(TOPIC)
    assert not load.problems
    asyncio.run(checker.check_all(leader_ports(cluster, TOPIC, PARTITIONS), load))
    print(f"{ROUNDS} rounds, {checker.records} records, all as promised")


def drawn(random: Random, ensemble: Ensemble | None) -> Kind:
    kinds = [kind for kind in Kind if kind is not Kind.KILL_ZOOKEEPER or ensemble is not None]
    return random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]


def strike(kind: Kind, cluster: Cluster, ensemble: Ensemble | None, random: Random) -> None:
    broker = random.choice(cluster.ids)
    absence_s = random.uniform(0, LONGEST_ABSENCE_S)
    if kind is Kind.PAUSE:
        cluster.pause(broker)
        time.sleep(SESSION_TIMEOUT_MS / 1000 + absence_s)
        cluster.resume(broker)
        cluster.wait_until_complete()
    elif kind is Kind.KILL_ZOOKEEPER:
        assert ensemble is not None
        server = ensemble.leader()
        server.stop()
        time.sleep(absence_s)
        server.start()
    else:
        (cluster.stop if kind is Kind.STOP else cluster.kill)(broker)
        time.sleep(absence_s)
        cluster.start(broker)
