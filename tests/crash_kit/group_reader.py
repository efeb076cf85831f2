"""A group member that reads on through failures, commits as it goes, and remembers what counted.

Promises 2 and 5 (RELIABILITY): its reads are contiguous, and a commit that was answered stays.
librdkafka does the reading, because it is not our own code.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from crash_kit.copier import CONNECTION
from floodmark.client.admin.admin import Admin

POLL_S = 0.1
BATCH = 200


class GroupReader:
    """Reads a topic as the only member of its group, in a thread, for the length of a block."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-reader")
        # The offset after the last record seen, and after the last one whose commit was answered.
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        # The offset of the last commit that was sent: it counts even if its answer was lost.
        self._sent: dict[int, int] = {}
        self._begins: dict[int, range] = {}
        self.assignments = 0
        self.problems: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                **CONNECTION,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    @property
    def seen(self) -> Mapping[int, int]:
        """The offset after the last record that was read, by partition."""
        return dict(self._next)

    def check(self) -> None:
        """What the group has now is at least what was answered as committed."""
        answered = dict(self._committed)
        stored = asyncio.run(self._stored())
        for partition, offset in answered.items():
            found = stored.get(partition, -1)
            assert found >= offset, f"group {self._group} lost its commit {partition}/{offset}"
        assert not self.problems, self.problems

    async def _stored(self) -> dict[int, int]:
        async with Admin(self._bootstrap) as admin:
            offsets = await admin.list_group_offsets(self._group)
            return {
                place.partition: one.offset
                for place, one in offsets.items()
                if place.topic == self._topic
            }

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Starts again at the last offset that it knows to be committed."""
        self.assignments += 1
        self._next = {}
        self._begins = {
            one.partition: range(self._committed[one.partition], self._sent[one.partition] + 1)
            for one in partitions
            if one.partition in self._committed
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            read = [m for m in self._consumer.consume(BATCH, POLL_S) if m.error() is None]
            for message in read:
                self._take(message)
            if read:
                self._commit()

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        expected = self._next.get(partition)
        allowed = self._begins.pop(partition, None) or range(offset, offset + 1)
        if expected is not None:
            allowed = range(expected, expected + 1)
        if offset not in allowed:
            self.problems.append(f"{partition}/{offset} was read, expected was {allowed}")
        self._next[partition] = offset + 1

    def _commit(self) -> None:
        wanted = [TopicPartition(self._topic, *place) for place in self._next.items()]
        self._sent.update(self._next)
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as problem:
            self._note_refusal(problem.args[0])
            return
        for one in done or []:
            if one.error is None:
                self._committed[one.partition] = one.offset

    def _note_refusal(self, error: KafkaError) -> None:
        """Refusals are allowed: the coordinator may be on its way to another broker."""
        if error.fatal():
            self.problems.append(f"fatal: {error}")
