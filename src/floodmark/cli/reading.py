"""Prints a topic to stdout, for `consume` and `cat -C`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import click

from floodmark.cli.errors import no_such_partition
from floodmark.cli.format import Formatter
from floodmark.cli.progress import Progress
from floodmark.cli.start_at import StartAt, seek_to
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.records.record import Record

POLL_MS = 500

Found = tuple[TopicPartition, Record]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    topics: Sequence[str]
    # None resumes from the group's offsets, shared with its other members.
    start: StartAt | None
    partitions: Sequence[int] = ()
    follow: bool = False
    max_records: int | None = None
    # Give up after this long without records; None waits forever.
    idle_timeout_ms: float | None = None
    # Only the last N records over all partitions, by time.
    last: int | None = None
    # Suppresses notes on stderr.
    quiet: bool = False

    def tell(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)


async def print_records(
    consumer: Consumer, plan: ReadPlan, formatter: Formatter, write: Callable[[bytes], None]
) -> int:
    """Formats and writes records until the plan is complete. Returns the number of records."""
    progress = Progress("records read")
    count = 0
    async for found in read(consumer, plan):
        write(b"".join(formatter(partition, record) for partition, record in found))
        count += len(found)
        progress.update(count)
    progress.finish()
    return count


async def read(consumer: Consumer, plan: ReadPlan) -> AsyncIterator[list[Found]]:
    """Yields the records the plan asks for, in batches as they arrive."""
    if plan.start is None:
        await consumer.subscribe(plan.topics)
        async for found in _until(
            consumer, None, plan.idle_timeout_ms, plan.max_records, follow=plan.follow
        ):
            yield found
        return
    partitions = await _assign(consumer, plan)
    end = await consumer.end_offsets(partitions)
    await seek_to(consumer, end, plan.start, plan.tell)
    left = plan.max_records
    if plan.last is not None:
        found = (await _last(consumer, end, plan.last))[:left]
        yield found
        if not plan.follow:
            return
        left = None if left is None else left - len(found)
        for partition, offset in end.items():
            # `_last` has read and skipped newer records: rewind to them.
            consumer.seek(partition, offset)
    async for found in _until(consumer, None if plan.follow else end, plan.idle_timeout_ms, left):
        yield found


async def _assign(consumer: Consumer, plan: ReadPlan) -> list[TopicPartition]:
    known = {topic: await consumer.partitions_of(topic) for topic in plan.topics}
    wanted: list[TopicPartition] = []
    for topic, partitions in known.items():
        chosen = [p for p in partitions if not plan.partitions or p.partition in plan.partitions]
        missing = set(plan.partitions) - {p.partition for p in partitions}
        if missing:
            raise no_such_partition(TopicPartition(topic, min(missing)), len(partitions))
        wanted += chosen
    await consumer.assign(wanted)
    return wanted


async def _last(consumer: Consumer, end: dict[TopicPartition, int], count: int) -> list[Found]:
    """Merges the last `count` records of every partition by time and keeps the newest."""
    gathered: list[Found] = []
    async for found in _until(consumer, end, None, None):
        gathered += found
    gathered.sort(key=lambda item: (item[1].timestamp, item[0], item[1].offset))
    return gathered[-count:] if count else []


async def _until(
    consumer: Consumer,
    end: dict[TopicPartition, int] | None,
    idle_timeout_ms: float | None,
    left: int | None,
    *,
    follow: bool = True,
) -> AsyncIterator[list[Found]]:
    """Reads up to these ends. Without ends it reads forever, or without `follow` until everything
    assigned has been read.
    """
    idle_ms = 0.0
    clock = consumer.cluster.clock
    while left is None or left > 0:
        if end is not None and await _all_at(consumer, end):
            return
        asked_ms = clock.monotonic_ms()
        polled = await consumer.poll(POLL_MS, max_records=left)
        found = [
            (partition, record)
            for partition, records in polled.items()
            for record in records
            if end is None or record.offset < end[partition]
        ]
        idle_ms = 0.0 if found else idle_ms + clock.monotonic_ms() - asked_ms
        if found:
            left = None if left is None else left - len(found)
            yield found
            continue
        is_idle = idle_timeout_ms is not None and idle_ms >= idle_timeout_ms
        if is_idle or (not follow and _has_caught_up(consumer)):
            return


def _has_caught_up(consumer: Consumer) -> bool:
    assigned = consumer.assignment
    return bool(assigned) and all(consumer.lag(partition) == 0 for partition in assigned)


async def _all_at(consumer: Consumer, end: dict[TopicPartition, int]) -> bool:
    for partition, offset in end.items():
        if await consumer.position(partition) < offset:
            return False
    return True
