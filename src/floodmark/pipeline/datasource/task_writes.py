"""Writes the rows of one Spark task: plainly, or exactly once with a mark.

Called in workers by the writers of `sink.py` and `batch_writers.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from floodmark.pipeline.datasource.batch_marks import Repeatable, check_repeat, is_written
from floodmark.pipeline.datasource.connecting import open_cluster
from floodmark.pipeline.datasource.mark_store import (
    MARKS_PARTITION,
    forget_old,
    read_mark,
    to_offset,
)
from floodmark.pipeline.datasource.options import WriteOptions
from floodmark.pipeline.datasource.sending import BatchSender
from floodmark.pipeline.datasource.writing import TaskWriter


async def write_rows(options: WriteOptions, iterator: Iterator[pa.RecordBatch]) -> int:
    """Writes all rows at least once. Returns their number."""
    async with open_cluster(options.bootstrap_servers, options.client) as cluster:
        sender = BatchSender(cluster, options.client)
        await sender.begin()
        writer = TaskWriter(cluster, sender, options, _task_number())
        counter = _Counter(iterator)
        try:
            for batch in counter:
                await writer.write(batch)
            await writer.flush()
        finally:
            await writer.settle()
    return counter.rows


async def write_rows_once(
    options: WriteOptions, repeatable: Repeatable, iterator: Iterator[pa.RecordBatch]
) -> int:
    """Writes all rows and the task's mark in one transaction. Nothing if the mark exists."""
    task = _task_number()
    group = repeatable.task_group(task)
    client = dataclasses.replace(options.client, transactional_id=group)
    async with open_cluster(options.bootstrap_servers, client) as cluster:
        sender = BatchSender(cluster, client)
        # Get the id first: that ends an earlier attempt's transaction, so the mark cannot change.
        await sender.begin()
        stored = await read_mark(cluster, group, options.topic)
        counter = _Counter(iterator)
        if stored.mark is not None and is_written(stored.mark, repeatable, task):
            # Consume all rows anyway: state stores upstream commit when they are done.
            for _ in counter:
                pass
            check_repeat(stored.mark, counter.rows, task)
            return counter.rows
        writer = TaskWriter(cluster, sender, options, task)
        try:
            for batch in counter:
                await writer.write(batch)
            await writer.flush()
            mark = repeatable.mark(rows=counter.rows)
            await sender.add_offset(group, MARKS_PARTITION, to_offset(mark))
        except BaseException:
            await writer.settle()
            await _abort_quietly(sender.end(committed=False))
            raise
        await sender.end(committed=True)
        await forget_old(cluster, group, stored)
        return counter.rows


async def _abort_quietly(abort: Coroutine[Any, Any, None]) -> None:
    """The first error is the one to show. The next attempt also ends the transaction."""
    await asyncio.gather(abort, return_exceptions=True)


class _Counter:
    """Passes batches through and counts their rows."""

    def __init__(self, iterator: Iterator[pa.RecordBatch]) -> None:
        self._iterator = iterator
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._iterator:
            self.rows += batch.num_rows
            yield batch


def _task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
