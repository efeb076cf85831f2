"""`foreachBatch` functions that write a streaming query's batches to a topic.

Called by `runner.py` and by users with their own queries. The rows go through a plain Arrow
function instead of the data source's writer, for which Spark starts new Python processes with every
batch. That takes longer than most batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floodmark.pipeline.datasource.batch_marks import Repeatable
from floodmark.pipeline.datasource.connecting import open_cluster
from floodmark.pipeline.datasource.mark_store import ensure_marks_topic, plan_batch
from floodmark.pipeline.datasource.options import (
    WriteOptions,
    check_exactly_once,
    parse_write_options,
)
from floodmark.pipeline.datasource.sink import check_columns
from floodmark.pipeline.datasource.task_writes import write_rows, write_rows_once
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.arrow_tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteBatch = Callable[["DataFrame", int], None]


def exactly_once(
    *,
    query: str,
    options: Mapping[str, str],
    first_exact_batch: int = 0,
    tasks: int | None = None,
) -> WriteBatch:
    """Writes every batch exactly once.

    `query` names the marks: use the same name after a restart, another for another query. Rows must
    depend only on the input, and adaptive execution must be off, or a repeat may be refused. With
    `tasks`, rows are first distributed to this many tasks; Spark Connect needs it.
    """
    given = parse_write_options(options)
    check_exactly_once(given)
    last_done = -1

    def write_batch(rows: DataFrame, batch: int) -> None:
        nonlocal last_done
        rows = rows if tasks is None else _distributed(rows, tasks)
        number = _number_of_tasks(rows) if tasks is None else tasks
        repeatable = Repeatable(query, batch, number, given.topic)
        # What follows our own last batch is new, even if a long silence let its mark expire.
        first = batch if batch == last_done + 1 else first_exact_batch
        asyncio.run(plan_write(given, repeatable, first))
        _run_tasks(rows, given, repeatable)
        last_done = batch

    return write_batch


def at_least_once(*, options: Mapping[str, str]) -> WriteBatch:
    """Writes every batch. One that failed halfway is written again."""
    given = parse_write_options(options)

    def write_batch(rows: DataFrame, batch: int) -> None:
        _run_tasks(rows, given, None)

    return write_batch


def _run_tasks(rows: DataFrame, options: WriteOptions, repeatable: Repeatable | None) -> None:
    check_columns(rows.schema, options)

    def write(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if repeatable is None:
            count = asyncio.run(write_rows(options, iterator))
        else:
            count = asyncio.run(write_rows_once(options, repeatable, iterator))
        yield pa.record_batch({"rows": pa.array([count], pa.int64())})

    run_tasks(rows, write)


def _distributed(rows: DataFrame, tasks: int) -> DataFrame:
    """By the key, so that the order of a key's rows is kept."""
    return rows.repartition(tasks, "key") if "key" in rows.columns else rows.repartition(tasks)


def _number_of_tasks(rows: DataFrame) -> int:
    """Uses the planned RDD, without running anything."""
    frame: Any = getattr(rows, "_jdf", None)
    if frame is None:
        raise PipelineError(
            "Spark Connect does not tell how a batch is split, which a repeat must keep: give "
            "exactly_once a number of tasks, such as tasks=4"
        )
    count: int = frame.queryExecution().toRdd().getNumPartitions()
    return count


async def plan_write(options: WriteOptions, repeatable: Repeatable, first: int) -> None:
    # Otherwise asking for a missing topic would create it with the broker's defaults.
    client = replace(options.client, allow_auto_create_topics=False)
    async with open_cluster(options.bootstrap_servers, client) as cluster:
        await ensure_marks_topic(cluster)
        await plan_batch(cluster, repeatable, first)
