"""Who is in sync, as leaders ask the controller for it while followers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.replication.outcomes import ACKS_ALL
from floodmark.wire.errors import ErrorCode
from kit.replica_cluster import ReplicaCluster
from kit.waiting import eventually

LAG_MS = 100


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster(max_lag_ms=LAG_MS)
    yield cluster
    await cluster.close()


def in_sync(cluster: ReplicaCluster, partition: int = 0) -> tuple[int, ...]:
    return cluster.nodes[1].replica(partition).core.leadership.in_sync_replicas


async def test_a_silent_follower_leaves_and_the_write_that_waited_for_it_is_acknowledged(
    cluster: ReplicaCluster,
) -> None:
    cluster.create()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE
    cluster.nodes[3].is_down = True
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE
    assert in_sync(cluster) == (1, 2)
    assert cluster.nodes[1].replicas.isr_shrinks == 1


async def test_a_follower_that_catches_up_returns_with_its_broker_epoch(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(isr=(1,))
    cluster.nodes[1].append(b"v")
    await eventually(lambda: set(in_sync(cluster)) == {1, 2, 3}, 5)
    members = {
        member.broker_id: member.broker_epoch
        for request in cluster.proposals
        for member in request.topics[0].partitions[0].new_isr_with_epochs
    }
    assert members == {1: 101, 2: 102, 3: 103}


async def test_a_follower_that_is_out_of_the_cluster_is_not_proposed_until_it_is_back(
    cluster: ReplicaCluster,
) -> None:
    cluster.unregistered.add(3)
    cluster.create(isr=(1,))
    cluster.nodes[1].append(b"v")
    await eventually(lambda: set(in_sync(cluster)) == {1, 2}, 5)
    await eventually(lambda: cluster.nodes[3].values() == [b"v"], 5)
    proposed = {
        member.broker_id
        for request in cluster.proposals
        for member in request.topics[0].partitions[0].new_isr_with_epochs
    }
    assert proposed == {1, 2}
    cluster.unregistered.clear()
    await eventually(lambda: set(in_sync(cluster)) == {1, 2, 3}, 5)


async def test_a_follower_that_has_less_than_the_high_watermark_does_not_return(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(isr=(1, 2))
    cluster.nodes[3].is_down = True
    cluster.nodes[1].append(b"v")
    await eventually(lambda: cluster.nodes[1].replica().core.high_watermark == 1, 5)
    assert in_sync(cluster) == (1, 2)
    cluster.nodes[3].is_down = False
    await eventually(lambda: 3 in in_sync(cluster), 5)
    assert cluster.nodes[3].values() == [b"v"]


async def test_with_too_few_in_sync_writes_are_refused_until_one_returns(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(min_in_sync_replicas=2)
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"first"), 5) is ErrorCode.NONE
    for broker in (2, 3):
        cluster.nodes[broker].is_down = True
    waiting = cluster.nodes[1].produce(b"second", timeout_ms=1000)
    await eventually(lambda: in_sync(cluster) == (1,), 5)
    outcome = cluster.nodes[1].append(b"refused", acks=ACKS_ALL)
    assert outcome.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.nodes[1].replica().core.high_watermark == 1
    cluster.nodes[2].is_down = False
    assert await asyncio.wait_for(waiting, 5) is ErrorCode.NONE
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"third"), 5) is ErrorCode.NONE
    assert cluster.nodes[2].values() == [b"first", b"second", b"third"]


async def test_proposals_of_many_partitions_go_in_one_request(cluster: ReplicaCluster) -> None:
    cluster.create(partitions=30, isr=(1, 2))
    await eventually(
        lambda: all(set(in_sync(cluster, partition)) == {1, 2, 3} for partition in range(30)), 5
    )
    assert len(cluster.proposals) <= 3


@pytest.mark.parametrize(
    "error_code",
    [ErrorCode.NOT_CONTROLLER, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.UNKNOWN_SERVER_ERROR],
)
async def test_what_a_controller_could_not_do_is_asked_for_again(
    cluster: ReplicaCluster, error_code: ErrorCode
) -> None:
    cluster.refuse_with = [error_code]
    cluster.create(isr=(1, 2))
    # Of an ineligible replica the next fetch says whether it is eligible by then.
    await eventually(lambda: cluster.proposals, 5)
    cluster.nodes[1].append(b"v")
    await eventually(lambda: set(in_sync(cluster)) == {1, 2, 3}, 5)


async def test_an_unreachable_controller_is_asked_again(cluster: ReplicaCluster) -> None:
    cluster.create(isr=(1, 2))
    cluster.nodes[1].is_down = True
    cluster.nodes[1].isr.caught_up(cluster.nodes[1].replica(), 3)
    cluster.nodes[1].is_down = False
    cluster.nodes[1].append(b"v")
    await eventually(lambda: set(in_sync(cluster)) == {1, 2, 3}, 5)


async def test_a_follower_that_has_restarted_since_its_fetch_does_not_get_in_by_it(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(isr=(1, 2))
    cluster.nodes[3].is_down = True
    core = cluster.nodes[1].replica().core
    core.fetched_by(3, 0, cluster.nodes[1].clock.monotonic_ms(), broker_epoch=103)
    cluster.nodes[3].broker_epoch = 203
    cluster.nodes[1].isr.caught_up(cluster.nodes[1].replica(), 3)
    await eventually(lambda: cluster.proposals and core.proposal is None, 5)
    assert in_sync(cluster) == (1, 2)
