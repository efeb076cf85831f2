"""DeleteRecords in a cluster: the answer waits until all live replicas have deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kit.replica_cluster import TOPIC, Node, ReplicaCluster
from kit.waiting import eventually


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster()
    cluster.create()
    for number in range(4):
        produced = cluster.nodes[1].produce(b"%d" % number)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    await eventually(lambda: all(node.end() == 4 for node in cluster.nodes.values()), 5)
    yield cluster
    await cluster.close()


async def delete(node: Node, offset: int, timeout_ms: int = 10_000) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
    answer = await asyncio.wait_for(node.serve(request), 5)
    (told,) = answer.topics[0].partitions
    return told.error_code, told.low_watermark


async def test_all_replicas_have_deleted_when_the_answer_comes(cluster: ReplicaCluster) -> None:
    assert await delete(cluster.nodes[1], 3) == (ErrorCode.NONE, 3)
    for node in cluster.nodes.values():
        assert node.replica().log.log_start_offset == 3
        assert node.values() == [b"3"]


async def test_it_times_out_with_the_low_watermark_that_was_reached(
    cluster: ReplicaCluster,
) -> None:
    async def hold(message: Any) -> None:
        await asyncio.Event().wait()

    cluster.nodes[3].on_request = hold
    timed_out = (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert await delete(cluster.nodes[1], 3, timeout_ms=100) == timed_out


async def test_a_broker_that_is_down_is_not_waited_for(cluster: ReplicaCluster) -> None:
    cluster.nodes[3].is_down = True
    assert await delete(cluster.nodes[1], 3) == (ErrorCode.NONE, 3)


async def test_who_loses_the_leadership_meanwhile_says_so(cluster: ReplicaCluster) -> None:
    for broker in (2, 3):
        cluster.nodes[broker].replicas.remove((TOPIC, 0))
    deleting = asyncio.ensure_future(delete(cluster.nodes[1], 3))
    await eventually(lambda: len(cluster.nodes[1].replicas.deletions) == 1, 5)
    cluster.lead(2, tell=[1])
    assert (await deleting)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
