"""A group member for tests: impatient settings, and a journal of what its listener is told."""

import asyncio
from collections.abc import Collection

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group import RebalanceListener
from floodmark.client.settings import ConsumerSettings


class Journal(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.fails_once = False

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("revoked")
        self._fail_once()

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("assigned")

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("lost")
        self._fail_once()

    def _fail_once(self) -> None:
        if self.fails_once:
            self.fails_once = False
            raise RuntimeError("a defect of the caller")


def member_settings(**changes: object) -> ConsumerSettings:
    values: dict[str, object] = {
        "group_id": "group",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 20,
        "session_timeout_ms": 1_000,
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 10,
        "fetch_max_wait_ms": 20,
    }
    return ConsumerSettings(**(values | changes))  # type: ignore[arg-type]


async def poll_until_assigned(consumer: Consumer) -> None:
    async with asyncio.timeout(20):
        while not consumer.assignment:
            await consumer.poll(20)


async def poll_until(consumer: Consumer, journal: Journal, *events: str) -> None:
    async with asyncio.timeout(20):
        while journal.events != list(events):
            await consumer.poll(20)
