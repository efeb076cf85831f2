"""KIP-207: the end of a partition does not go back when its leader changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kit.replica_cluster import TOPIC, ReplicaCluster
from kit.waiting import eventually

LATEST, EARLIEST = -1, -2
CONSUMER = -1
FUTURE_MS = 1 << 50


class NewLeader:
    """Broker 2 has just taken over from 1; it has the four records, but not the last high
    watermark, and no follower has fetched from it yet."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self._node = cluster.nodes[2]
        self._go_on = asyncio.Event()
        self._cluster = cluster

    async def take_over(self) -> None:
        for node in self._cluster.nodes.values():
            node.on_request = self._hold
        core = self._node.replica().core
        core.high_watermark = 1
        self._cluster.lead(2)

    async def _hold(self, message: Any) -> None:
        await self._go_on.wait()

    def let_followers_fetch(self) -> None:
        self._go_on.set()

    @property
    def high_watermark(self) -> int:
        return self._node.replica().core.high_watermark

    async def ask(
        self, timestamp: int, replica_id: int = CONSUMER, isolation_level: int = 0
    ) -> tuple[int, int]:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[partition])
        answer = await self._node.serve(
            ListOffsetsRequest(
                replica_id=replica_id, isolation_level=isolation_level, topics=[topic]
            )
        )
        (told,) = answer.topics[0].partitions
        return told.error_code, told.offset


@pytest.fixture
async def leader() -> AsyncIterator[NewLeader]:
    cluster = ReplicaCluster()
    cluster.create()
    for number in range(4):
        produced = cluster.nodes[1].produce(b"%d" % number)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    leader = NewLeader(cluster)
    await leader.take_over()
    yield leader
    leader.let_followers_fetch()
    await cluster.close()


UNAVAILABLE = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_the_end_is_not_told_before_followers_have_confirmed_it(
    leader: NewLeader, isolation_level: int
) -> None:
    assert await leader.ask(LATEST, isolation_level=isolation_level) == UNAVAILABLE
    leader.let_followers_fetch()
    await eventually(lambda: leader.high_watermark == 4, 5)
    assert await leader.ask(LATEST, isolation_level=isolation_level) == (ErrorCode.NONE, 4)


async def test_a_time_whose_record_may_lie_above_the_high_watermark_has_no_answer_yet(
    leader: NewLeader,
) -> None:
    assert await leader.ask(FUTURE_MS) == UNAVAILABLE


async def test_what_lies_below_the_high_watermark_is_told(leader: NewLeader) -> None:
    assert await leader.ask(0) == (ErrorCode.NONE, 0)
    assert await leader.ask(EARLIEST) == (ErrorCode.NONE, 0)


async def test_a_follower_is_told_the_end_of_the_log(leader: NewLeader) -> None:
    assert await leader.ask(LATEST, replica_id=3) == (ErrorCode.NONE, 4)
