"""Replication throttles (KIP-73): the arithmetic, and what leaders and followers do by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.replication.replica import Replica
from floodmark.replication.throttle import UNLIMITED, ReplicationQuota, is_throttled
from kit.replica_cluster import Node, ReplicaCluster
from kit.waiting import eventually

RECORD = b"x" * 20_000


def quota(limit_bytes: int) -> ReplicationQuota:
    one = ReplicationQuota(windows=11, window_ms=1000)
    one.limit_bytes = limit_bytes
    return one


def test_the_rate_is_what_was_counted_over_the_time_since_the_oldest_window():
    one = quota(100)
    one.record(400, 0)
    one.record(200, 1500)
    assert one.rate(2000) == 300
    assert one.is_exceeded(2000)
    assert not one.is_exceeded(6000)
    assert one.wait_ms(5990) == 20
    assert one.wait_ms(2000) == 1000


def test_the_first_window_counts_in_full():
    one = quota(1000)
    one.record(900, 0)
    assert one.rate(1) == 900
    assert not one.is_exceeded(1)


def test_windows_that_have_passed_count_no_more():
    one = quota(10)
    one.record(10_000, 0)
    assert one.is_exceeded(10_999)
    assert not one.is_exceeded(11_001)
    assert one.total_bytes == 10_000


def test_without_a_limit_nothing_is_exceeded_and_with_none_everything():
    one = quota(UNLIMITED)
    one.record(1 << 50, 0)
    assert not one.is_exceeded(0)
    assert quota(0).is_exceeded(0)
    assert quota(0).wait_ms(0) == 1000


def test_a_topic_names_the_replicas_that_are_throttled():
    assert is_throttled(["0:1", "1:2"], 1, 2)
    assert not is_throttled(["0:1", "1:2"], 1, 1)
    assert is_throttled(["*"], 7, 7)
    assert not is_throttled([], 0, 1)


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    """Broker 1 leads and alone is in sync; nothing was copied yet."""
    cluster = ReplicaCluster(brokers=2)
    for node in cluster.nodes.values():
        node.is_down = True
    cluster.create(isr=(1,))
    for _ in range(20):
        cluster.nodes[1].append(RECORD)
    yield cluster
    await cluster.close()


def replica_of(node: Node) -> Replica:
    return node.replica()


def come_up(cluster: ReplicaCluster) -> None:
    for node in cluster.nodes.values():
        node.is_down = False


async def copied(cluster: ReplicaCluster, count: int) -> None:
    await eventually(lambda: replica_of(cluster.nodes[2]).log.log_end_offset >= count, 20)


async def test_a_follower_out_of_sync_gets_no_more_than_the_leader_may_send(
    cluster: ReplicaCluster,
) -> None:
    leader = cluster.nodes[1]
    replica_of(leader).is_throttled_as_leader = True
    leader.replicas.quotas.leader.limit_bytes = 0
    come_up(cluster)
    follower = replica_of(cluster.nodes[2])
    fetches = len(cluster.nodes[2].asked)
    await eventually(lambda: len(cluster.nodes[2].asked) > fetches, 5)
    await asyncio.sleep(0.3)
    assert follower.log.log_end_offset == 0
    leader.replicas.quotas.leader.limit_bytes = UNLIMITED
    leader.replicas.changed(replica_of(leader).key)
    await copied(cluster, 20)


async def test_what_throttled_replicas_get_is_measured(cluster: ReplicaCluster) -> None:
    leader, follower = cluster.nodes[1], cluster.nodes[2]
    replica_of(leader).is_throttled_as_leader = True
    replica_of(follower).is_throttled_as_follower = True
    leader.replicas.quotas.leader.limit_bytes = 1 << 40
    come_up(cluster)
    await copied(cluster, 20)
    sent = leader.replicas.quotas.leader.total_bytes
    assert sent >= 20 * len(RECORD)
    assert follower.replicas.quotas.follower.total_bytes == sent


async def test_a_follower_asks_for_no_more_than_it_may_fetch(cluster: ReplicaCluster) -> None:
    node = cluster.nodes[2]
    replica_of(node).is_throttled_as_follower = True
    node.replicas.quotas.follower.configure(0, 2, 100)
    node.fetchers.refresh(replica_of(node))
    come_up(cluster)
    await asyncio.sleep(0.3)
    assert replica_of(node).log.log_end_offset == 0
    node.replicas.quotas.follower.limit_bytes = UNLIMITED
    await copied(cluster, 20)


async def test_a_follower_in_sync_is_not_held_back(cluster: ReplicaCluster) -> None:
    come_up(cluster)
    await copied(cluster, 20)
    leader, follower = cluster.nodes[1], cluster.nodes[2]
    await eventually(lambda: 2 in replica_of(leader).core.leadership.in_sync_replicas, 5)
    replica_of(leader).is_throttled_as_leader = True
    replica_of(follower).is_throttled_as_follower = True
    leader.replicas.quotas.leader.limit_bytes = follower.replicas.quotas.follower.limit_bytes = 0
    leader.append(RECORD)
    await copied(cluster, 21)
