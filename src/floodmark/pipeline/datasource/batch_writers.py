"""`foreachBatch` functions that write a streaming query's batches to a topic.

Called by `runner.py` and by users with their own queries. The rows go through a plain Arrow
function instead of the data source's writer, for which Spark starts new Python processes with every
batch. That takes longer than most batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floodmark.client.cluster.cluster import Cluster
from floodmark.pipeline.datasource.batch_marks import Repeatable, plan_batch
from floodmark.pipeline.datasource.options import WriteOptions, parse_write_options
from floodmark.pipeline.datasource.sink import check_columns
from floodmark.pipeline.datasource.task_writes import write_rows, write_rows_once
from floodmark.pipeline.errors import OptionError
from floodmark.pipeline.spark.arrow_tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteBatch = Callable[["DataFrame", int], None]


def exactly_once(
    *, query: str, options: Mapping[str, str], first_exact_batch: int = 0
) -> WriteBatch:
    """Writes every batch exactly once.

    `query` names the marks: use the same name after a restart, another for another query. Rows must
    depend only on the input, and adaptive execution must be off, or a repeat may be refused.
    """
    given = parse_write_options(options)
    topic = given.topic
    if topic is None:
        raise OptionError("exactly once needs the option topic, where the marks are kept")

    def write_batch(rows: DataFrame, batch: int) -> None:
        repeatable = Repeatable(query, batch, _number_of_tasks(rows))
        asyncio.run(_plan(given, topic, repeatable, first_exact_batch))
        _run_tasks(rows, given, repeatable)

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


def _number_of_tasks(rows: DataFrame) -> int:
    """Uses the planned RDD, without running anything."""
    frame: Any = rows
    count: int = frame._jdf.queryExecution().toRdd().getNumPartitions()
    return count


async def _plan(options: WriteOptions, topic: str, repeatable: Repeatable, first: int) -> None:
    async with Cluster(options.bootstrap_servers, options.client) as cluster:
        await cluster.topics_of([topic])
        await plan_batch(cluster, topic, repeatable, first)
