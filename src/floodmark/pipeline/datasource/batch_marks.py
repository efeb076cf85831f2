"""Marks that make a repeated batch harmless: which batch each task has written, kept as offsets.

Called by `task_writes.py` and `batch_writers.py`. A task commits its mark in the same transaction
as its rows, so both are there or neither. The driver writes down how many tasks a batch has before
any of them runs. Marks are offsets of groups of their own on partition 0 of the topic that is
written; the offset is the number of the batch.
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
    """What names one task's share of one batch; made on the driver, pickled to the workers."""

    query: str
    batch: int
    tasks: int

    @property
    def plan_group(self) -> str:
        return f"floodmark-sink-{self.query}"

    def task_group(self, task: int) -> str:
        """The group of a task's mark, which is its transactional id as well."""
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
                f"the mark of batch {offset.offset} reads {offset.metadata!r}: somebody else has "
                "committed to this group. Name the pipeline's sink otherwise"
            )
        return cls(offset.offset, *numbers)


def mark_partition(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


async def read_mark(cluster: Cluster, group: str, topic: str) -> Mark | None:
    partition = mark_partition(topic)
    found = await committed_offsets(cluster, group, [partition], require_stable=True)
    return Mark.of(found[partition]) if partition in found else None


async def plan_batch(cluster: Cluster, topic: str, repeatable: Repeatable, first: int) -> None:
    """Check that this batch may be written now, and write down its number of tasks.

    `first` is the first batch that ever has marks: 0, unless the author said otherwise.
    """
    known = await read_mark(cluster, repeatable.plan_group, topic)
    check_plan(known, repeatable, first)
    mark = Mark(repeatable.batch, repeatable.tasks).to_offset()
    await commit_offsets(
        cluster, GroupMetadata(repeatable.plan_group), {mark_partition(topic): mark}
    )


def check_plan(known: Mark | None, wanted: Repeatable, first: int) -> None:
    """Batches come one after another; a repeat must have as many tasks as before."""
    if wanted.batch <= first and known is None:
        return
    if known is None or known.batch < wanted.batch - 1:
        seen = "no mark is left" if known is None else f"the last mark is of batch {known.batch}"
        raise ExactlyOnceError(
            f"batch {wanted.batch} cannot be written exactly once: {seen}, so what was written "
            "since is not known (marks expire after offsets.retention.minutes, and another topic "
            "has none). Compare the output with the input, then go on with "
            f"first_exact_batch={wanted.batch}"
        )
    if known.batch > wanted.batch:
        raise ExactlyOnceError(
            f"batch {wanted.batch} was to be written, but batch {known.batch} already was: the "
            "checkpoint is older than the output. Restore the newer checkpoint, or reset the "
            "pipeline to begin anew"
        )
    if known.batch == wanted.batch and known.tasks != wanted.tasks:
        raise ExactlyOnceError(
            f"batch {wanted.batch} was begun with {known.tasks} tasks and would be repeated with "
            f"{wanted.tasks}: the rows would be cut differently and some be written twice. Run it "
            "once with the old number (minPartitions, tasks), then change it"
        )


def is_written(mark: Mark, wanted: Repeatable, task: int) -> bool:
    """Whether the task has written this batch already.

    Spark begins a batch when the one before is complete, but may leave copies of its tasks running:
    what such a straggler has to write is there, and its mark would hide the later one.
    """
    if mark.batch > wanted.batch:
        raise ExactlyOnceError(
            f"task {task} of batch {wanted.batch} comes too late: batch {mark.batch} is written"
        )
    return mark.batch == wanted.batch


def check_repeat(mark: Mark, rows: int, task: int) -> None:
    """A repeat that makes more or fewer rows was cut or made otherwise; to skip it may lose some.

    What the rows say is not compared: a joined table may rightly have changed meanwhile.
    """
    if mark.rows != rows:
        raise ExactlyOnceError(
            f"task {task} of batch {mark.batch} wrote {mark.rows} rows and now makes {rows} "
            "of the same input: the pipeline is not deterministic (time, random numbers, a changed "
            "table in an inner join). Use at least once for it"
        )
