"""Consumers read from a replica in their own rack (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.records.batch import iter_headers
from floodmark.records.record import decode_records
from floodmark.replication.partition import Leadership
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kit.replica_cluster import TOPIC, TOPIC_ID, Node, ReplicaCluster
from kit.waiting import eventually

RACKS = {1: "north", 2: "south", 3: "south"}


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster()
    for node in cluster.nodes.values():
        node.replicas.rack_of = RACKS.get
    cluster.create()
    for number in range(3):
        produced = cluster.nodes[1].produce(b"%d" % number)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    await eventually(lambda: all(node.committed() == 3 for node in cluster.nodes.values()), 5)
    yield cluster
    await cluster.close()


async def fetch(
    node: Node, *, rack: str = "", offset: int = 0, max_wait_ms: int = 0
) -> PartitionData:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=0
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        rack_id=rack,
    )
    answer = await asyncio.wait_for(node.serve(request), 5)
    (topic,) = answer.responses
    (data,) = topic.partitions
    return data


def values(data: PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, bytes | memoryview)
    batches = memoryview(data.records)
    return [
        record.value
        for position, _ in iter_headers(batches)
        for record in decode_records(batches[position:])
    ]


async def test_a_leader_names_the_follower_in_the_consumers_rack(cluster: ReplicaCluster) -> None:
    data = await fetch(cluster.nodes[1], rack="south", max_wait_ms=60_000)
    assert data.error_code == ErrorCode.NONE
    assert data.preferred_read_replica in (2, 3)
    assert not data.records


@pytest.mark.parametrize("rack", ["", "north", "east"])
async def test_a_leader_serves_those_for_whom_nobody_is_closer(
    cluster: ReplicaCluster, rack: str
) -> None:
    data = await fetch(cluster.nodes[1], rack=rack)
    assert data.preferred_read_replica == -1
    assert values(data) == [b"0", b"1", b"2"]


async def test_without_a_selector_everybody_reads_from_the_leader(cluster: ReplicaCluster) -> None:
    cluster.nodes[1].replicas.rack_of = None
    assert values(await fetch(cluster.nodes[1], rack="south")) == [b"0", b"1", b"2"]


async def test_a_follower_that_is_not_in_sync_is_not_named(cluster: ReplicaCluster) -> None:
    node = cluster.nodes[1]
    node.replicas.lead_or_follow(node.replica(), Leadership(1, 0, 5, (1, 2), (1, 2, 3)))
    assert (await fetch(node, rack="south")).preferred_read_replica == 2


async def test_a_follower_without_the_offset_is_not_named(cluster: ReplicaCluster) -> None:
    cluster.nodes[2].is_down = cluster.nodes[3].is_down = True
    cluster.nodes[1].append(b"3")
    data = await fetch(cluster.nodes[1], rack="south", offset=4)
    assert data.preferred_read_replica == -1


async def test_a_follower_serves_consumers_up_to_its_high_watermark(
    cluster: ReplicaCluster,
) -> None:
    follower = cluster.nodes[3]
    assert values(await fetch(follower, rack="south")) == [b"0", b"1", b"2"]
    waiting = asyncio.ensure_future(fetch(follower, rack="south", offset=3, max_wait_ms=60_000))
    cluster.nodes[2].is_down = True
    cluster.nodes[1].append(b"not on all of them")
    await eventually(lambda: follower.replica().log.log_end_offset == 4, 5)
    assert not waiting.done()
    cluster.nodes[2].is_down = False
    assert values(await waiting) == [b"not on all of them"]


async def test_a_follower_tells_a_consumer_that_knows_another_epoch(
    cluster: ReplicaCluster,
) -> None:
    cluster.lead(2)
    assert (await fetch(cluster.nodes[3])).error_code == ErrorCode.FENCED_LEADER_EPOCH
