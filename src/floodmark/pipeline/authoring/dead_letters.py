"""Dead letters in their topic: what they say, and how they go back where they came from.

Called by `floodmark pipeline dead-letters`. Needs no Spark. A redrive sends the records that match
and its own position in one transaction, so no record goes back twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group_offsets import committed_offsets
from floodmark.client.producer.producer import Producer
from floodmark.pipeline.errors import PipelineError
from floodmark.records.record import Header, Record

# The headers that a pipeline adds.
PREFIX = "floodmark."
# A transaction ends after this many records, or after some seconds at a low rate.
_CHUNK_RECORDS = 500
_CHUNK_SECONDS = 10
_POLL_MS = 500


@dataclass(frozen=True)
class DeadLetter:
    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    # The record's own, without those of the pipeline.
    headers: tuple[Header, ...]
    error: str
    column: str | None
    source: str
    origin: TopicPartition
    origin_offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, partition: TopicPartition, record: Record) -> DeadLetter:
        ours = {
            name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
            for name, value in record.headers
            if name.startswith(PREFIX)
        }
        try:
            origin = TopicPartition(ours["topic"], int(ours["partition"]))
            offset, timestamp_ms = int(ours["offset"]), int(ours["timestamp"])
        except (KeyError, ValueError):
            raise PipelineError(
                f"the record at offset {record.offset} of {partition} is not a dead letter of a "
                f"pipeline: it lacks headers such as {PREFIX}topic. Name the topic of dead_letters"
            ) from None
        return cls(
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=tuple(h for h in record.headers if not h[0].startswith(PREFIX)),
            error=ours.get("error", ""),
            column=ours.get("column"),
            source=ours.get("source", ""),
            origin=origin,
            origin_offset=offset,
            timestamp_ms=timestamp_ms,
        )


@dataclass(frozen=True)
class Filter:
    """Which dead letters. Everything that is given must match."""

    source: str | None = None
    column: str | None = None
    reason: str | None = None
    key: str | None = None
    origin: str | None = None

    def matches(self, letter: DeadLetter) -> bool:
        return (
            self.source in (None, letter.source)
            and self.column in (None, letter.column)
            and (self.reason is None or self.reason.lower() in letter.error.lower())
            and (self.key is None or (letter.key or b"") == self.key.encode())
            and self.origin in (None, letter.origin.topic)
        )


@dataclass
class Redriven:
    """What a redrive has done, or would do."""

    sent: dict[str, int]
    others: int = 0

    def add(self, topic: str) -> None:
        self.sent[topic] = self.sent.get(topic, 0) + 1

    @property
    def total(self) -> int:
        return sum(self.sent.values())


async def read_letters(
    consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> AsyncIterator[list[tuple[TopicPartition, Record]]]:
    """The records between these offsets, in chunks."""
    left = {partition for partition, end in ends.items() if starts[partition] < end}
    await consumer.assign(left)
    for partition in left:
        consumer.seek(partition, starts[partition])
    while left:
        polled = await consumer.poll(_POLL_MS, max_records=_CHUNK_RECORDS)
        found = [
            (partition, record)
            for partition, records in polled.items()
            for record in records
            if record.offset < ends[partition]
        ]
        if found:
            yield found
        left = {p for p in left if await consumer.position(p) < ends[p]}


def redrive_group(topic: str) -> str:
    """The group of a redrive's position, which is also its transactional id."""
    return f"floodmark-redrive-{topic}"


async def redrive_range(
    consumer: Consumer, topic: str, *, from_beginning: bool
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """From the end of the last redrive to the current end, so that no record is sent twice."""
    partitions = await consumer.partitions_of(topic)
    ends = await consumer.end_offsets(partitions)
    starts = dict(await consumer.beginning_offsets(partitions))
    if not from_beginning:
        known = await committed_offsets(
            consumer.cluster, redrive_group(topic), partitions, require_stable=True
        )
        starts |= {p: max(starts[p], item.offset) for p, item in known.items()}
    return starts, dict(ends)


class Redrive:
    def __init__(
        self,
        consumer: Consumer,
        producer: Producer | None,
        wanted: Filter,
        *,
        to: str | None = None,
        per_second: float | None = None,
        most: int | None = None,
    ) -> None:
        """Without a producer it sends nothing, and counts what it would send."""
        self._consumer = consumer
        self._producer = producer
        self._wanted = wanted
        self._to = to
        self._per_second = per_second
        self._most = most
        self.outcome = Redriven({})

    async def run(self, topic: str, *, from_beginning: bool = False) -> Redriven:
        starts, ends = await redrive_range(self._consumer, topic, from_beginning=from_beginning)
        async for found in read_letters(self._consumer, starts, ends):
            left = found
            while left and not self._is_done:
                taken, left = self._next_chunk(left)
                await self._send(taken, redrive_group(topic))
            if self._is_done:
                break
        return self.outcome

    @property
    def _is_done(self) -> bool:
        return self._most is not None and self.outcome.total >= self._most

    def _next_chunk(
        self, found: list[tuple[TopicPartition, Record]]
    ) -> tuple[list[DeadLetter], list[tuple[TopicPartition, Record]]]:
        """Splits off as many records as fit into one transaction. Returns them and the rest."""
        size = len(found)
        if self._per_second is not None:
            size = max(1, int(self._per_second * _CHUNK_SECONDS))
        letters: list[DeadLetter] = []
        matches = 0
        for number, (partition, record) in enumerate(found):
            left = None if self._most is None else self._most - self.outcome.total - matches
            if len(letters) == size or left == 0:
                return letters, found[number:]
            letters.append(DeadLetter.of(partition, record))
            matches += self._wanted.matches(letters[-1])
        return letters, []

    async def _send(self, letters: list[DeadLetter], group: str) -> None:
        """Sends those that match. The position moves past all of them."""
        if self._producer is None:
            await self._send_matching(letters)
            return
        async with self._producer.transaction():
            await self._send_matching(letters)
            positions = {letter.partition: letter.offset + 1 for letter in letters}
            await self._producer.send_offsets_to_transaction(positions, group)

    async def _send_matching(self, letters: list[DeadLetter]) -> None:
        loop = asyncio.get_running_loop()
        begin, count = loop.time(), 0
        for letter in letters:
            if not self._wanted.matches(letter):
                self.outcome.others += 1
                continue
            count += 1
            self.outcome.add(self._to or letter.origin.topic)
            if self._producer is None:
                continue
            await self._send_back(self._producer, letter)
            if self._per_second is not None:
                await asyncio.sleep(max(0.0, begin + count / self._per_second - loop.time()))

    async def _send_back(self, producer: Producer, letter: DeadLetter) -> None:
        """Sends a record to the partition it came from, or to another topic if one was named."""
        await producer.send(
            self._to or letter.origin.topic,
            letter.value,
            key=letter.key,
            partition=None if self._to is not None else letter.origin.partition,
            headers=letter.headers,
            timestamp_ms=letter.timestamp_ms,
        )
