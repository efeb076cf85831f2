"""kill -9 of one broker of three under idempotent load, again and again.

Leaders, followers and controllers are hit alike, and some brokers are stopped in order. What was
acknowledged by two replicas is there in the end, once, in order and at its offset.
`FLOODMARK_CLUSTER_ROUNDS` says how often a broker goes.
"""

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.cluster import IDS, ProcessCluster
from kit.seeds import seed

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
    cluster = ProcessCluster(tmp_path)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    asyncio.run(create_topic(cluster.bootstrap))
    load.start()
    try:
        for _ in range(ROUNDS):
            time.sleep(random.uniform(0, LONGEST_LIFE_S))
            replace_one(cluster, random)
            if random.random() >= IMPATIENT_SHARE:
                cluster.wait_until_in_sync(TOPIC)
            assert not load.problems
        cluster.wait_until_in_sync(TOPIC)
        load.finish()
        assert not load.problems
        asyncio.run(checker.check_all(cluster.leaders(TOPIC), load))
        print(f"{ROUNDS} rounds, {checker.records} records, all as promised")
    finally:
        load.finish()
        cluster.stop()


def replace_one(cluster: ProcessCluster, random: Random) -> None:
    broker_id = random.choice(IDS)
    process = cluster.processes[broker_id]
    if random.random() < ORDERLY_SHARE:
        process.stop()
    else:
        process.kill()
    time.sleep(random.uniform(0, LONGEST_ABSENCE_S))
    cluster.start(broker_id)
    cluster.wait_until_up()


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        configs = {"min.insync.replicas": "2", "segment.bytes": "1048576"}
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, len(IDS), configs=configs))
