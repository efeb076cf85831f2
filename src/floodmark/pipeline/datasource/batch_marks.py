"""Marks that make a repeated batch harmless: what each task has written of which batch. PURE.

Called by `mark_store.py`, which stores them, and `task_writes.py`. A task commits its mark in the
same transaction as its rows, so either both or neither exist. The driver records a batch's number
of tasks before any of them runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from floodmark.pipeline.errors import ExactlyOnceError

# Instead of a topic, where each row names its own. No topic can have this name.
SEVERAL_TOPICS = "*"
_TEXT = re.compile(r"batch=(\d+) tasks=(\d+) rows=(\d+) topic=(\S+)")
_OLD_TEXT = re.compile(r"tasks=(\d+) rows=(\d+)")


@dataclass(frozen=True)
class Mark:
    """What was written under a batch number."""

    batch: int
    tasks: int
    rows: int = 0
    topic: str = SEVERAL_TOPICS

    def to_text(self) -> str:
        return f"batch={self.batch} tasks={self.tasks} rows={self.rows} topic={self.topic}"

    @classmethod
    def of_text(cls, text: str) -> Mark:
        found = _TEXT.fullmatch(text)
        if found is None:
            raise _foreign(text)
        batch, tasks, rows, topic = found.groups()
        return cls(int(batch), int(tasks), int(rows), topic)

    @classmethod
    def of_old(cls, topic: str, batch: int, text: str) -> Mark:
        """Reads a mark of version 0.1.0, stored on the written topic with the batch as its
        offset."""
        found = _OLD_TEXT.fullmatch(text)
        if found is None:
            raise _foreign(text)
        return cls(batch, int(found[1]), int(found[2]), topic)


def _foreign(text: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        f"a mark reads {text!r}: someone else has committed to its group. Rename the pipeline's "
        "sink"
    )


@dataclass(frozen=True)
class Repeatable:
    """Identifies one task's share of one batch. Created on the driver, pickled to the workers."""

    query: str
    batch: int
    tasks: int
    # None if the rows name their topics.
    topic: str | None = None

    @property
    def plan_group(self) -> str:
        return f"floodmark-sink-{self.query}"

    def task_group(self, task: int) -> str:
        """The group of a task's mark, which is also its transactional id."""
        return f"{self.plan_group}-{task}"

    def mark(self, *, rows: int) -> Mark:
        return Mark(self.batch, self.tasks, rows, self.topic or SEVERAL_TOPICS)


def check_plan(known: Mark | None, wanted: Repeatable, first: int) -> None:
    """Batches come one after another. A repeat must have as many tasks as before."""
    if wanted.batch <= first and known is None:
        return
    if known is None or known.batch < wanted.batch - 1:
        seen = "no mark is left" if known is None else f"the last mark is of batch {known.batch}"
        raise ExactlyOnceError(
            f"batch {wanted.batch} cannot be written exactly once: {seen}, so it is unknown what "
            "was written since (marks expire after offsets.retention.minutes). Compare the output "
            f"with the input, then continue with first_exact_batch={wanted.batch}"
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
    _check_topic(known, wanted)


def _check_topic(known: Mark, wanted: Repeatable) -> None:
    topic = wanted.mark(rows=0).topic
    if known.batch == wanted.batch and known.topic != topic:
        raise ExactlyOnceError(
            f"batch {wanted.batch} was started for {_shown(known.topic)} and would be repeated for "
            f"{_shown(topic)}: its rows would be spread over both. Run it once as before, then "
            "change the topic"
        )


def _shown(topic: str) -> str:
    return "the topics in its rows" if topic == SEVERAL_TOPICS else f"the topic {topic}"


def is_written(mark: Mark, wanted: Repeatable, task: int) -> bool:
    """Whether the task has already written this batch.

    Spark starts a batch when the previous one is complete, but may leave copies of its tasks
    running. A straggler's rows are already there, and its mark would hide the later one.
    """
    if mark.batch > wanted.batch:
        raise ExactlyOnceError(
            f"task {task} of batch {wanted.batch} comes too late: batch {mark.batch} is written"
        )
    _check_topic(mark, wanted)
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
