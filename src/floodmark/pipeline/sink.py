"""Writers of the data source `floodmark`: DataFrames into topics.

Spark makes them on the driver (through `source.py`) and runs `write` in a task per partition. At
least once by itself; `exactly_once` makes a writer for `foreachBatch` that repeats nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from floodmark.client.cluster import Cluster
from floodmark.pipeline.errors import OptionError, PipelineError
from floodmark.pipeline.marks import (
    Mark,
    Repeatable,
    check_repeat,
    mark_partition,
    plan_batch,
    read_mark,
)
from floodmark.pipeline.options import Options, WriteOptions, parse_write_options
from floodmark.pipeline.sending import BatchSender
from floodmark.pipeline.writing import TaskWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Long enough for a slow task, below the broker's own limit (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 600_000

_COLUMN_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": (StringType, BinaryType),
    "value": (StringType, BinaryType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
}


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """One batch write; a repeatable one when `exactly_once` says which batch it is."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        self._repeatable = _repeatable(Options(options))
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._repeatable is None:
            return asyncio.run(_write(self._options, iterator))
        return asyncio.run(_write_once(self._options, self._repeatable, iterator))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A streaming sink, at least once: a batch that failed half way is written again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return asyncio.run(_write(self._options, iterator))


def exactly_once(
    *, query: str, options: Mapping[str, str], first_exact_batch: int = 0
) -> Callable[[DataFrame, int], None]:
    """A function for `writeStream.foreachBatch` that writes every batch exactly once.

    `query` names the marks: the same name after a restart, another for another query. Rows must
    follow from the input alone, and adaptive execution must be off, or a repeat may be refused.
    """
    given = {name: str(value) for name, value in options.items()}
    topic = given.get("topic")
    if topic is None:
        raise OptionError("exactly once needs the option topic, where the marks are kept")

    def write_batch(rows: DataFrame, batch: int) -> None:
        tasks = _number_of_tasks(rows)
        repeatable = Repeatable(query, batch, tasks)
        asyncio.run(_plan(parse_write_options(given), topic, repeatable, first_exact_batch))
        named = {
            "exactlyonce.query": query,
            "exactlyonce.batch": str(batch),
            "exactlyonce.tasks": str(tasks),
        }
        rows.write.format("floodmark").options(**given, **named).mode("append").save()

    return write_batch


def _number_of_tasks(rows: DataFrame) -> int:
    """Asked of the planned RDD: nothing is run by it."""
    frame: Any = rows
    count: int = frame._jdf.queryExecution().toRdd().getNumPartitions()
    return count


async def _plan(options: WriteOptions, topic: str, repeatable: Repeatable, first: int) -> None:
    async with Cluster(options.bootstrap_servers, options.client) as cluster:
        await cluster.topics_of([topic])
        await plan_batch(cluster, topic, repeatable, first)


def _repeatable(given: Options) -> Repeatable | None:
    query = given.text("exactlyOnce.query")
    if query is None:
        return None
    batch, tasks = given.whole("exactlyOnce.batch", 0), given.whole("exactlyOnce.tasks", 0)
    assert batch is not None and tasks is not None
    return Repeatable(query, batch, tasks)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """What the connector asks of the columns, said before anything runs."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise PipelineError(
            f"a topic needs a column value, the columns are {', '.join(types) or 'none'}: make "
            "one, for instance by to_json(struct(*))"
        )
    if options.topic is None and "topic" not in types:
        raise PipelineError("name the topic to write to by the option topic or by a column topic")
    for name, kind in types.items():
        allowed = _COLUMN_TYPES.get(name)
        if allowed is None:
            raise PipelineError(
                f"a topic has no place for the column {name}: only {', '.join(_COLUMN_TYPES)} are "
                "written. Put it into value, or drop it"
            )
        if not isinstance(kind, allowed):
            names = " or ".join(item().simpleString() for item in allowed if item is not ArrayType)
            raise PipelineError(
                f"the column {name} is {kind.simpleString()}, but must be "
                f"{names or 'an array of (key string, value binary)'}: cast it"
            )


async def _write(options: WriteOptions, iterator: Iterator[pa.RecordBatch]) -> Written:
    async with Cluster(options.bootstrap_servers, options.client) as cluster:
        sender = BatchSender(cluster, options.client)
        await sender.begin()
        writer = TaskWriter(cluster, sender, options, _task_number())
        rows = 0
        for batch in iterator:
            rows += batch.num_rows
            await writer.write(batch)
        await writer.flush()
    return Written(rows)


async def _write_once(
    options: WriteOptions, repeatable: Repeatable, iterator: Iterator[pa.RecordBatch]
) -> Written:
    task = _task_number()
    group = repeatable.task_group(task)
    client = dataclasses.replace(
        options.client, transactional_id=group, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    assert options.topic is not None
    async with Cluster(options.bootstrap_servers, client) as cluster:
        await cluster.topics_of([options.topic])
        sender = BatchSender(cluster, client)
        # First the id: it ends an earlier attempt's transaction, so the mark can change no more.
        await sender.begin()
        known = await read_mark(cluster, group, options.topic)
        counter = _Counter(iterator)
        if known is not None and known.batch == repeatable.batch:
            # All rows are drawn nevertheless: state stores upstream commit when they are through.
            for _ in counter:
                pass
            check_repeat(known, counter.rows, task)
            return Written(0)
        writer = TaskWriter(cluster, sender, options, task)
        try:
            for batch in counter:
                await writer.write(batch)
            await writer.flush()
            mark = Mark(repeatable.batch, repeatable.tasks, counter.rows)
            await sender.add_offset(group, mark_partition(options.topic), mark.to_offset())
        except BaseException:
            await _abort_quietly(sender.end(committed=False))
            raise
        await sender.end(committed=True)
        return Written(counter.rows)


async def _abort_quietly(abort: Coroutine[Any, Any, None]) -> None:
    """The first error is the one to show; the next attempt ends the transaction as well."""
    await asyncio.gather(abort, return_exceptions=True)


class _Counter:
    """Passes batches on and counts their rows."""

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
