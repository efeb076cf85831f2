"""A fourth broker joins a cluster of three under load, takes over from the first one, which leaves.

The load is idempotent with acks=all. Nothing of it fails or is lost, and in the end nobody misses
the broker that has left.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

import pytest

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.testing import Cluster
from kit.waiting import wait_for

TOPIC = "lasting"
PARTITIONS = 3
LEAVING, ADDED = 1, 4
SEED = 23


class GrowingCluster(Cluster):
    """Opens without its last broker."""

    _is_begun = False

    def open(self) -> Self:
        super().open()
        self._is_begun = True
        return self

    def start(self, *brokers: int) -> None:
        super().start(*(one for one in brokers if self._is_begun or one != ADDED))


@pytest.mark.timeout(120)
def test_a_broker_that_is_added_takes_over_from_one_that_leaves(tmp_path: Path) -> None:
    with GrowingCluster(tmp_path, brokers=4) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        assert holders(cluster) == {1, 2, 3}
        load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
        load.start()
        try:
            wait_for(lambda: len(load.acknowledged()) > 0)
            cluster.start(ADDED)
            cluster.create_topic("later", PARTITIONS)
            assert ADDED in holders(cluster)
            asyncio.run(move_everything(cluster))
            wait_for(lambda: LEAVING not in holders(cluster), 60)
            cluster.stop(LEAVING)
            wait_for(lambda: not any(cluster.data_dir(LEAVING).glob(f"{TOPIC}-?")))
            sent = len(load.acknowledged())
            wait_for(lambda: len(load.acknowledged()) > sent + 100)
        finally:
            load.finish()
        assert not load.problems
        cluster.wait_until_in_sync(TOPIC)
        assert holders(cluster) == {2, 3, ADDED}
        checker = Checker(TOPIC, PARTITIONS, SEED)
        check_all(cluster, checker, load)


def holders(cluster: Cluster) -> set[int]:
    """The brokers that have a replica of any partition."""
    topics = asyncio.run(listed(cluster))
    return {r for topic in topics for one in topic.partitions.values() for r in one.replicas}


async def listed(cluster: Cluster) -> list[TopicView]:
    async with Admin(cluster.bootstrap_servers) as admin:
        return await admin.list_topics()


async def move_everything(cluster: Cluster) -> None:
    """The added broker, or another one, takes the place of the one that leaves."""
    moves = {}
    for topic in await listed(cluster):
        for one in topic.partitions.values():
            if LEAVING in one.replicas:
                free = next(b for b in (ADDED, 2, 3) if b not in one.replicas)
                target = [free if r == LEAVING else r for r in one.replicas]
                moves[TopicPartition(topic.name, one.partition)] = target
    async with Admin(cluster.bootstrap_servers) as admin:
        outcomes = await admin.alter_partition_reassignments(moves)
    assert set(outcomes.values()) == {None}
