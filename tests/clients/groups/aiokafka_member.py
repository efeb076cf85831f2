"""One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY; see tests/group_kit/member.py."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable

from aiokafka import (
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Printer(ConsumerRebalanceListener):
    """aiokafka rebalances beside the application: a lock lets it finish what it has in hand."""

    def __init__(self, busy: asyncio.Lock) -> None:
        self._busy = busy

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        emit(event="assigned", partitions=[f"{at.topic}/{at.partition}" for at in assigned])

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        async with self._busy:
            emit(event="revoked", partitions=[f"{at.topic}/{at.partition}" for at in revoked])


async def main(bootstrap: str, group: str, pattern: str, strategy: str) -> None:
    asked_to_leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_leave.set)
    busy = asyncio.Lock()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
        session_timeout_ms=3000,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[_ASSIGNORS[strategy]],
    )
    consumer.subscribe(pattern=pattern, listener=Printer(busy))
    await consumer.start()
    while not asked_to_leave.is_set():
        polled = await consumer.getmany(timeout_ms=100)
        async with busy:
            await consume(consumer, polled)
    await consumer.stop()
    emit(event="closed")


async def consume(
    consumer: AIOKafkaConsumer, polled: dict[TopicPartition, list[ConsumerRecord]]
) -> None:
    """What was taken away between the fetch and the lock is left to its next owner."""
    offsets = {}
    for at in polled.keys() & consumer.assignment():
        for record in polled[at]:
            emit(event="record", partition=f"{at.topic}/{at.partition}", offset=record.offset)
            offsets[at] = record.offset + 1
    if offsets:
        await commit(consumer, offsets)


async def commit(consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int]) -> None:
    """An expelled member goes on: its commit changed nothing, and it joins again."""
    try:
        await consumer.commit(offsets)
    except (CommitFailedError, IllegalStateError) as expelled:
        print(expelled, file=sys.stderr)


def emit(**event: object) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
