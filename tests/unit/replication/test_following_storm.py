"""Leaders move and links break at random while records are written: the shells lose nothing.

The simulator proves the decisions; this is about fetchers, reviews and truncations as they run on a
loop, with everything in flight at once.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from floodmark.storage.log_config import LogConfig
from floodmark.wire.errors import ErrorCode
from kit.replica_cluster import ReplicaCluster
from kit.waiting import eventually

PARTITIONS = 3
STEPS = 120


class Storm:
    def __init__(self, cluster: ReplicaCluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.produced: list[tuple[int, bytes, asyncio.Future[ErrorCode]]] = []

    async def step(self, number: int) -> None:
        chosen = self.random.choices(
            (self.produce, self.move_leader, self.break_or_heal), weights=(10, 2, 1)
        )[0]
        chosen(number)
        await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.005)))

    def produce(self, number: int) -> None:
        partition = self.random.randrange(PARTITIONS)
        leader = self.cluster.nodes[self.cluster.decided[partition].leader]
        value = b"%d" % number
        self.produced.append((partition, value, leader.produce(value, partition, timeout_ms=3000)))

    def move_leader(self, number: int) -> None:
        partition = self.random.randrange(PARTITIONS)
        isr = self.cluster.decided[partition].in_sync_replicas
        # Some hear about it first, and some only with the next decision or at the end.
        brokers = self.random.sample(list(self.cluster.nodes), 3)
        heard = brokers[: self.random.choice((1, 2, 3, 3, 3))]
        leader = self.random.choice(isr)
        self.cluster.lead(leader, partition, isr=isr, tell={leader, *heard})

    def break_or_heal(self, number: int) -> None:
        node = self.random.choice(list(self.cluster.nodes.values()))
        node.is_down = not node.is_down and not any(n.is_down for n in self.cluster.nodes.values())

    async def end(self) -> None:
        for node in self.cluster.nodes.values():
            node.is_down = False
        for partition in range(PARTITIONS):
            self.cluster.tell(partition, self.cluster.nodes)
        await eventually(self.agrees, 10)

    def agrees(self) -> bool:
        nodes = self.cluster.nodes.values()
        return all(
            len({node.replica(partition).log.log_end_offset for node in nodes}) == 1
            and len({node.replica(partition).core.high_watermark for node in nodes}) == 1
            and len(self.cluster.decided[partition].in_sync_replicas) == 3
            for partition in range(PARTITIONS)
        )


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(flush_messages=1)])
@pytest.mark.parametrize("seed", range(5))
async def test_all_logs_agree_after_a_storm_and_hold_what_was_acknowledged(
    seed: int, config: LogConfig
) -> None:
    cluster = ReplicaCluster(max_lag_ms=60)
    try:
        cluster.create(PARTITIONS, config=config, min_in_sync_replicas=2)
        storm = Storm(cluster, Random(seed))
        for number in range(STEPS):
            await storm.step(number)
        await storm.end()
        answers = await asyncio.gather(*(answer for _, _, answer in storm.produced))
        for partition in range(PARTITIONS):
            logs = [node.values(partition) for node in cluster.nodes.values()]
            assert logs[0] == logs[1] == logs[2]
            acknowledged = [
                value
                for (where, value, _), answer in zip(storm.produced, answers, strict=True)
                if where == partition and answer is ErrorCode.NONE
            ]
            assert acknowledged == [value for value in logs[0] if value in acknowledged]
        assert any(answer is ErrorCode.NONE for answer in answers)
        assert all(node.failed == [] for node in cluster.nodes.values())
    finally:
        await cluster.close()
