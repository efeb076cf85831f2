"""Marks that make a repeated batch harmless: the batch each task has written, stored as offsets.

Called by `task_writes.py` and `batch_writers.py`. A task commits its mark in the same transaction
as its rows, so either both or neither exist. The driver records a batch's number of tasks before
any of them runs. Marks are offsets of special groups on partition 0 of the written topic. The
offset is the batch number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    commit_offsets,
    committed_offsets,
)
from floodmark.pipeline.errors import ExactlyOnceError


@dataclass(frozen=True)
class Repeatable:
    """Identifies one task's share of one batch. Created on the driver, pickled to the workers."""

    query: str
    batch: int
    tasks: int

    @property
    def plan_group(self) -> str:
        return f"floodmark-sink-{self.query}"

    def task_group(self, task: int) -> str:
        """The group of a task's mark, which is also its transactional id."""
        return f"{self.plan_group}-{task}"


@dataclass(frozen=True)
class Mark:
    """What was written under a batch number."""

    batch: int
    tasks: int
    rows: int = 0

    def to_offset(self) -> OffsetAndMetadata:
        return OffsetAndMetadata(self.batch, f"tasks={self.tasks} rows={self.rows}")

    @classmethod
    def of(cls, offset: OffsetAndMetadata) -> Mark:
        numbers = [int(number) for number in re.findall(r"=(\d+)", offset.metadata)]
        if len(numbers) != 2:
            raise ExactlyOnceError(
                f"the mark of batch {offset.offset} reads {offset.metadata!r}: someone else has "
                "committed to this group. Rename the pipeline's sink"
            )
        return cls(offset.offset, *numbers)


def mark_partition(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


async def read_mark(cluster: Cluster, group: str, topic: str) -> Mark | None:
    partition = mark_partition(topic)
    found = await committed_offsets(cluster, group, [partition], require_stable=True)
    return Mark.of(found[partition]) if partition in found else None


async def plan_batch(cluster: Cluster, topic: str, repeatable: Repeatable, first: int) -> None:
    """Checks that this batch may be written now, and records its number of tasks.

    `first` is the first batch that has marks: 0, unless the author set it.
    """
    known = await read_mark(cluster, repeatable.plan_group, topic)
    check_plan(known, repeatable, first)
    mark = Mark(repeatable.batch, repeatable.tasks).to_offset()
    await commit_offsets(
        cluster, GroupMetadata(repeatable.plan_group), {mark_partition(topic): mark}
    )


def check_plan(known: Mark | None, wanted: Repeatable, first: int) -> None:
    """Batches come one after another. A repeat must have as many tasks as before."""
    if wanted.batch <= first and known is None:
        return
    if known is None or known.batch < wanted.batch - 1:
        seen = "no mark is left" if known is None else f"the last mark is of batch {known.batch}"
        raise ExactlyOnceError(
            f"batch {wanted.batch} cannot be written exactly once: {seen}, so it is unknown what "
            "was written since (marks expire after offsets.retention.minutes, and another topic "
            "has none). Compare the output with the input, then continue with "
            f"first_exact_batch={wanted.batch}"
        )
    if known.batch > wanted.batch:
        raise ExactlyOnceError(
            f"batch {wanted.batch} was to be written, but batch {known.batch} already was: the "
            "checkpoint is older than the output. Restore the newer checkpoint, or reset the "
            "pipeline to start over"
        )
    if known.batch == wanted.batch and known.tasks != wanted.tasks:
        raise ExactlyOnceError(
            f"batch {wanted.batch} was started with {known.tasks} tasks and would be repeated with "
            f"{wanted.tasks}: the rows would be split differently and some written twice. Run it "
            "once with the old number (minPartitions, tasks), then change it"
        )


def is_written(mark: Mark, wanted: Repeatable, task: int) -> bool:
    """Whether the task has already written this batch.

    Spark starts a batch when the previous one is complete, but may leave copies of its tasks
    running. A straggler's rows are already there, and its mark would hide the later one.
    """
    if mark.batch > wanted.batch:
        raise ExactlyOnceError(
            f"task {task} of batch {wanted.batch} comes too late: batch {mark.batch} is written"
        )
    return mark.batch == wanted.batch


def check_repeat(mark: Mark, rows: int, task: int) -> None:
    """A repeat with more or fewer rows was split or computed differently. Skipping may lose some.

    Contents are not compared: a joined table may legitimately have changed.
    """
    if mark.rows != rows:
        raise ExactlyOnceError(
            f"task {task} of batch {mark.batch} wrote {mark.rows} rows and now makes {rows} "
            "from the same input: the pipeline is not deterministic (time, random numbers, a "
            "changed table in an inner join). Use at least once for it"
        )
