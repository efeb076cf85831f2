"""kill -9 of one broker of three under idempotent load, again and again.

Leaders, followers, controllers and group coordinators are hit alike, and some brokers are stopped
in order. What was acknowledged by two replicas is there in the end, once, in order and at its
offset; a group reads on without a gap, and keeps what it has committed.
`FLOODMARK_CLUSTER_ROUNDS` says how often a broker goes.
"""

import asyncio
import os
import time
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

ROUNDS = int(os.environ.get("FLOODMARK_CLUSTER_ROUNDS", "6"))
SEED = seed()

TOPIC = "replicated"
PARTITIONS = 4
LONGEST_LIFE_S = 1.0
LONGEST_ABSENCE_S = 1.0
ORDERLY_SHARE = 0.2
IMPATIENT_SHARE = 0.3
"""How often the next broker goes before the last one is in sync again."""


@pytest.mark.timeout(max(300, ROUNDS * 30))
def test_nothing_acknowledged_by_two_replicas_is_lost_or_repeated(tmp_path: Path) -> None:
    print(f"FLOODMARK_SEED={SEED} FLOODMARK_CLUSTER_ROUNDS={ROUNDS}")
    random = Random(SEED)
    with Cluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, {"segment.bytes": 1048576})
        run_rounds(cluster, random)


def run_rounds(cluster: Cluster, random: Random) -> None:
    load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    reader = GroupReader(cluster.bootstrap_servers, TOPIC, "readers")
    load.start()
    try:
        with reader:
            for _ in range(ROUNDS):
                time.sleep(random.uniform(0, LONGEST_LIFE_S))
                replace_one(cluster, random)
                if random.random() >= IMPATIENT_SHARE:
                    cluster.wait_until_in_sync(TOPIC)
                assert not load.problems
                reader.check()
            load.finish()
            sent = len(load.acknowledged())
            wait_for(lambda: sum(reader.seen.values()) >= sent, 60)
            reader.check()
        cluster.wait_until_in_sync(TOPIC)
        assert not load.problems
        asyncio.run(checker.check_all(leader_ports(cluster, TOPIC, PARTITIONS), load))
        print(f"{ROUNDS} rounds, {checker.records} records, all as promised")
    finally:
        load.finish()


def replace_one(cluster: Cluster, random: Random) -> None:
    broker = random.choice(cluster.ids)
    if random.random() < ORDERLY_SHARE:
        cluster.stop(broker)
    else:
        cluster.kill(broker)
    time.sleep(random.uniform(0, LONGEST_ABSENCE_S))
    cluster.start(broker)
