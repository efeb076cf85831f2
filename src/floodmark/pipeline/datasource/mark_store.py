"""Where marks are stored: as offsets of groups, on a partition that is always empty.

Called by `task_writes.py` and `batch_writers.py`; `batch_marks.py` has the rules. A group's offset
can be part of a transaction, and one request reads it. The offset itself is always 0 and the
partition's topic has no records, so these groups never have a lag; the metadata holds the mark.

In 0.1.0 the offset was the batch number, on partition 0 of the written topic, which monitors
counted as lag. Such marks are still read. They are removed once there is a new one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from floodmark.client.admin import group_admin, topic_admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    commit_offsets,
    committed_offsets,
)
from floodmark.client.errors import KafkaError, UnknownTopic
from floodmark.pipeline.datasource.batch_marks import Mark, Repeatable, check_plan
from floodmark.pipeline.errors import PipelineError
from floodmark.wire.errors import ErrorCode

MARKS_TOPIC = "__floodmark_marks"
MARKS_PARTITION = TopicPartition(MARKS_TOPIC, 0)


@dataclass(frozen=True)
class StoredMark:
    """A group's mark, and the partition of one in the old form, to remove later."""

    mark: Mark | None = None
    old: TopicPartition | None = None


def to_offset(mark: Mark) -> OffsetAndMetadata:
    return OffsetAndMetadata(0, mark.to_text())


async def read_mark(cluster: Cluster, group: str, topic: str | None) -> StoredMark:
    """`topic` is where an old mark would be. Rows of several topics never had one."""
    found = await committed_offsets(cluster, group, _places(topic), require_stable=True)
    stored = StoredMark()
    for place, offset in found.items():
        is_old = place != MARKS_PARTITION
        mark = (
            Mark.of_old(place.topic, offset.offset, offset.metadata)
            if is_old
            else Mark.of_text(offset.metadata)
        )
        # Both exist if an older version has written a batch meanwhile.
        is_newest = stored.mark is None or mark.batch > stored.mark.batch
        stored = StoredMark(mark if is_newest else stored.mark, place if is_old else stored.old)
    return stored


def _places(topic: str | None) -> list[TopicPartition]:
    old = [] if topic is None else [TopicPartition(topic, 0)]
    return [MARKS_PARTITION, *old]


async def plan_batch(cluster: Cluster, repeatable: Repeatable, first: int) -> None:
    """Checks that this batch may be written now, and records its number of tasks.

    `first` is the first batch that has marks: 0, unless the author set it.
    """
    group = repeatable.plan_group
    stored = await read_mark(cluster, group, repeatable.topic)
    check_plan(stored.mark, repeatable, first)
    offsets = {MARKS_PARTITION: to_offset(repeatable.mark(rows=0))}
    # Retried: the group's coordinator may not know a new topic yet.
    await cluster.retry(lambda: commit_offsets(cluster, GroupMetadata(group), offsets))
    await forget_old(cluster, group, stored)


async def forget_old(cluster: Cluster, group: str, stored: StoredMark) -> None:
    """Removes a mark in the old form, once a new one has replaced it.

    A failure is harmless: the newer mark counts, and the broker removes the old one in time.
    """
    if stored.old is not None:
        removal = group_admin.delete_offsets(cluster, group, [stored.old])
        await asyncio.gather(removal, return_exceptions=True)


async def ensure_marks_topic(cluster: Cluster) -> None:
    """Creates the topic on the first use in a cluster. `cluster` must not create topics itself."""

    async def attempt() -> None:
        try:
            await cluster.topics_of([MARKS_TOPIC], timeout_ms=0)
        except KafkaError as error:
            if not isinstance(error.reason, UnknownTopic):
                raise
            await _create_marks_topic(cluster)

    await cluster.retry(attempt, what=f"looking for the topic {MARKS_TOPIC}")


async def _create_marks_topic(cluster: Cluster) -> None:
    (created,) = await topic_admin.create(cluster, [NewTopic(MARKS_TOPIC, partitions=1)])
    error = created.error
    if error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return
    if error.retriable:
        raise error
    raise PipelineError(
        f"the topic {MARKS_TOPIC}, to which the marks of exactly once belong, does not exist and "
        f"cannot be created: {error.text}. Have it created with one partition; it stays empty"
    )
