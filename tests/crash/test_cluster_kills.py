"""kill -9 of brokers in a cluster of three, again and again, under load.

The load is idempotent and transactional, the store either one.

Leaders, followers, controllers and group coordinators are hit alike, sometimes two or all of them
at once; some brokers are stopped in order, and some stand still for longer than their session
lasts. On ZooKeeper, an ensemble of three, its leader is killed, too. What was acknowledged by two
replicas is there in the end, once, in order and at its offset; a group reads on without a gap, and
keeps what it has committed; committed transactions are seen whole, aborted ones never, by a reader
that was there and by one that comes late.
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

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.committed_reader import CommittedReader
from crash_kit.exactly_once import no_transaction_hangs
from crash_kit.group_reader import GroupReader
from crash_kit.load import Load
from crash_kit.transactional_load import RECORDS_PER_PARTITION, TransactionalLoad
from floodmark.testing import Cluster
from kit.seeds import seed
from kit.waiting import wait_for
from kit.zookeeper import Ensemble

ROUNDS = int(os.environ.get("FLOODMARK_CLUSTER_ROUNDS", "8"))
SEED = seed()

TOPIC = "replicated"
TRANSACTIONAL = "transactional"
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
    KILL = "kill -9 of a broker"
    KILL_TWO = "kill -9 of two brokers at once"
    KILL_ALL = "kill -9 of all brokers at once"
    STOP = "orderly stop"
    PAUSE = "a pause beyond the session"
    KILL_ZOOKEEPER = "kill -9 of a server of ZooKeeper"


BROKER_KINDS = (Kind.KILL, Kind.KILL_TWO, Kind.KILL_ALL, Kind.STOP, Kind.PAUSE)


class Victim(Enum):
    LEADER = "a leader"
    FOLLOWER = "a follower"
    CONTROLLER = "the controller"


DECK = [(Kind.KILL, victim) for victim in Victim] + [
    (Kind.KILL_TWO, Victim.CONTROLLER),
    (Kind.KILL_ALL, Victim.LEADER),
    (Kind.STOP, None),
    (Kind.PAUSE, None),
    (Kind.KILL_ZOOKEEPER, Victim.LEADER),
]
"""Eight rounds meet all of it; where no victim is named, it is drawn."""


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
            cluster.create_topic(TRANSACTIONAL, PARTITIONS)
            run_rounds(cluster, ensemble)


def run_rounds(cluster: Cluster, ensemble: Ensemble | None) -> None:
    random = Random(SEED)
    load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    transactions = TransactionalLoad(cluster.bootstrap_servers, TRANSACTIONAL, PARTITIONS, SEED)
    load.start()
    transactions.start()
    committed = CommittedReader(cluster.bootstrap_servers, TRANSACTIONAL, PARTITIONS)
    try:
        with committed, GroupReader(cluster.bootstrap_servers, TOPIC, "readers") as reader:
            for number, (kind, victim) in enumerate(drawn(random, ensemble)):
                time.sleep(random.uniform(0, LONGEST_LIFE_S))
                print(f"round {number}: {kind.value}, {victim.value}")
                strike(kind, victim, cluster, ensemble, random)
                if random.random() >= IMPATIENT_SHARE:
                    cluster.wait_until_in_sync(TOPIC)
                    cluster.wait_until_in_sync(TRANSACTIONAL)
                assert not load.problems
                assert not transactions.problems
                reader.check()
            load.finish()
            transactions.finish()
            sent = len(load.acknowledged())
            wait_for(lambda: sum(reader.seen.values()) >= sent, 60)
            reader.check()
            check_transactions(cluster, transactions, committed)
    finally:
        load.finish()
        transactions.finish()
    cluster.wait_until_in_sync(TOPIC)
    assert not load.problems
    check_all(cluster, checker, load)
    print(f"{ROUNDS} rounds, {checker.records} records, all as promised")


def check_transactions(
    cluster: Cluster, transactions: TransactionalLoad, early: CommittedReader
) -> None:
    assert not transactions.problems
    asyncio.run(no_transaction_hangs(cluster.bootstrap_servers, TRANSACTIONAL))
    with CommittedReader(cluster.bootstrap_servers, TRANSACTIONAL, PARTITIONS) as late:
        least = transactions.committed * PARTITIONS * RECORDS_PER_PARTITION
        for reader in (early, late):
            wait_for(lambda reader=reader: len(reader.seen) >= least, 60)
        wait_for(lambda: sorted(early.seen) == sorted(late.seen), 60)
    transactions.check(late.seen)
    print(
        f"{len(transactions.fates)} transactions, {transactions.committed} committed, "
        f"{transactions.restarts} restarts, the longest took {transactions.longest_s:.1f} s"
    )


def drawn(random: Random, ensemble: Ensemble | None) -> Iterator[tuple[Kind, Victim]]:
    """What happens in each of the rounds."""
    deck: list[tuple[Kind, Victim | None]] = []
    for _ in range(ROUNDS):
        if not deck:
            deck = [one for one in DECK if ensemble is not None or one[0] in BROKER_KINDS]
            random.shuffle(deck)
        kind, victim = deck.pop()
        yield kind, victim or random.choice(list(Victim))


def strike(
    kind: Kind, victim: Victim, cluster: Cluster, ensemble: Ensemble | None, random: Random
) -> None:
    broker = chosen(victim, cluster, random)
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
        brokers = sorted({broker, *others(kind, broker, cluster, random)})
        (cluster.stop if kind is Kind.STOP else cluster.kill)(*brokers)
        time.sleep(absence_s)
        cluster.start(*brokers)


def others(kind: Kind, broker: int, cluster: Cluster, random: Random) -> list[int]:
    """Who goes at the same time."""
    rest = [one for one in cluster.ids if one != broker]
    return {Kind.KILL_TWO: [random.choice(rest)], Kind.KILL_ALL: rest}.get(kind, [])


def chosen(victim: Victim, cluster: Cluster, random: Random) -> int:
    if victim is Victim.CONTROLLER:
        return cluster.controller()
    leader = cluster.leader_of(random.choice([TOPIC, TRANSACTIONAL]), random.randrange(PARTITIONS))
    if victim is Victim.LEADER:
        return leader
    return random.choice([broker for broker in cluster.ids if broker != leader])
