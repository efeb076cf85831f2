"""The data source `floodmark`: topics as DataFrames, batch and streaming, without a jar.

Spark finds it through `pyspark_floodmark`, or after `floodmark.pipeline.register`. Spark creates
the objects on the driver and pickles the readers to the workers. Methods keep Spark's spelling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec
from floodmark.clock import SystemClock
from floodmark.pipeline.datasource.offsets import (
    Positions,
    for_display,
    from_document,
    to_document,
)
from floodmark.pipeline.datasource.options import Options, ReadOptions, parse_read_options
from floodmark.pipeline.datasource.planning import (
    OffsetRange,
    Planner,
    check_order,
    limit_evenly,
    range_of,
    split_ranges,
)
from floodmark.pipeline.datasource.topic_ids import TopicIds
from floodmark.pipeline.errors import DataLossError, OptionError

T = TypeVar("T")
Document = dict[str, dict[str, int]]

logger = logging.getLogger(__name__)


class FloodmarkSource(DataSource):
    """`spark.read.format("floodmark")` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        return "floodmark"

    def schema(self) -> StructType:
        return row_schema(include_headers=Options(self.options).flag("includeHeaders", False))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check_schema(schema)
        return TopicReader(parse_read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._check_schema(schema)
        return TopicStreamReader(parse_read_options(self.options, streaming=True))

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError(
                f"the columns of a topic are {self.schema().simpleString()}, not "
                f"{schema.simpleString()}: remove .schema(...), and cast or parse in the query"
            )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from floodmark.pipeline.datasource.sink import TopicWriter

        if overwrite:
            raise OptionError(
                'a topic cannot be overwritten: use mode("append"), after deleting the '
                "topic's records if you want to replace them"
            )
        return TopicWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from floodmark.pipeline.datasource.sink import TopicStreamWriter

        return TopicStreamWriter(self.options, schema)


def row_schema(*, include_headers: bool) -> StructType:
    """The columns of Spark's Kafka connector, in the same order."""
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema.add("headers", ArrayType(header))
    return schema


# For a read without data: an empty list would make Spark ask for the range None.
_NOTHING = OffsetRange(TopicPartition("", 0), 0, 0)


class RangePartition(InputPartition):
    """One task's share, which Spark pickles to the worker."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class TopicReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return asyncio.run(self._plan()) or [RangePartition(_NOTHING)]

    async def _plan(self) -> list[InputPartition]:
        options = self._options
        planner = Planner(options)
        try:
            found = await planner.partitions()
            starts = await planner.resolve(options.starting, found)
            ends = await planner.resolve(options.ending, found)
            check_order([OffsetRange(p, starts[p], ends[p]) for p in found], options)
            ends = await planner.known_ends(starts, ends)
            view = planner.cluster.view
            ranges = [range_of(view, p, starts[p], ends[p]) for p in found]
            if options.limits is not None:
                ranges = await planner.limited(ranges, options.limits)
        finally:
            await planner.close()
        return _input_partitions(ranges, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver while the query runs. Only `read` runs in workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._driver: _StreamDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_driver": None}

    @property
    def _on_driver(self) -> _StreamDriver:
        if self._driver is None:
            self._driver = _StreamDriver(self._options)
        return self._driver

    def initialOffset(self) -> Document:
        return self._on_driver.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._on_driver.fix_target()

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:
        limited = not isinstance(limit, ReadAllAvailable)
        return self._on_driver.latest(start, limited=limited)

    def reportLatestOffset(self) -> Document | None:
        return self._on_driver.report()

    def partitions(self, start: Document, end: Document) -> Sequence[InputPartition]:
        return self._on_driver.ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: Document) -> None:
        self._on_driver.commit(end)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


class _StreamDriver:
    """The driver's side of a streaming read: offsets, rate limits, the group's position."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._topic_ids = TopicIds(options.topic_ids_file)
        self._topics_checked = False
        self._loop = asyncio.new_event_loop()
        self._planner = self._run(self._open())
        self._clock = SystemClock()
        self._last_batch_ms = self._clock.monotonic_ms()
        self._target: Positions | None = None
        self._reported: Positions = {}
        self._warned = False

    async def _open(self) -> Planner:
        # Created inside the loop, because the locks of its cluster belong to it.
        return Planner(self._options)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._run(self._planner.close())
        self._loop.close()

    def initial(self) -> Document:
        async def find() -> Positions:
            return await self._planner.resolve(self._options.starting, await self._partitions())

        return to_document(self._run(find()))

    def fix_target(self) -> None:
        self._target = self._run(self._ends())

    async def _ends(self) -> Positions:
        return await self._planner.offsets(await self._partitions(), OffsetSpec.LATEST)

    async def _partitions(self) -> list[TopicPartition]:
        """All partitions being read."""
        found = await self._planner.partitions()
        view = self._planner.cluster.view
        topic_ids = {partition.topic: view.topic_id(partition.topic) for partition in found}
        recreated = self._topic_ids.recreated(topic_ids)
        if recreated and self._options.fail_on_data_loss:
            raise DataLossError(
                f"topic {recreated[0]} was deleted and recreated since the query read it: records "
                "that were not read yet are gone. Start with a new checkpoint to read the new "
                "topic from its start. With failOnDataLoss set to false, the query continues "
                "after the old offset, if the new topic reaches that far"
            )
        self._topic_ids.keep(topic_ids)
        self._topics_checked = True
        return found

    def report(self) -> Document | None:
        return to_document(self._reported) if self._reported else None

    def latest(self, start_document: Mapping[str, Mapping[str, int]], *, limited: bool) -> Document:
        start = from_document(start_document)
        ends = self._run(self._ends())
        self._reported = ends
        if self._target is not None:
            ends = {p: min(end, self._target[p]) for p, end in ends.items() if p in self._target}
        start |= self._run(self._begin_of_new(set(ends) - set(start)))
        self._check_loss(start, ends)
        if limited and self._target is None and self._is_too_little(start, ends):
            return to_document(start)
        if limited and self._options.max_offsets_per_trigger is not None:
            ends = limit_evenly(start, ends, self._options.max_offsets_per_trigger)
        if ends != start:
            self._last_batch_ms = self._clock.monotonic_ms()
        return to_document(ends)

    async def _begin_of_new(self, partitions: set[TopicPartition]) -> Positions:
        """Added partitions are read from their first record on."""
        return await self._planner.offsets(sorted(partitions), OffsetSpec.EARLIEST)

    def _check_loss(self, start: Positions, ends: Positions) -> None:
        for partition, position in start.items():
            end = ends.get(partition)
            if end is not None and end >= position:
                continue
            why = "it is gone" if end is None else f"it ends at {end}"
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"the query stands at offset {position} of {partition}, but {why}: was the "
                    "topic deleted or recreated? Set failOnDataLoss to false to continue, or start "
                    "with a new checkpoint"
                )

    def _is_too_little(self, start: Positions, ends: Positions) -> bool:
        """Whether to wait for more records, at most for maxTriggerDelay."""
        minimum = self._options.min_offsets_per_trigger
        if minimum is None:
            return False
        waited_ms = self._clock.monotonic_ms() - self._last_batch_ms
        waiting = sum(max(0, ends[p] - start[p]) for p in ends)
        return waiting < minimum and waited_ms < self._options.max_trigger_delay_ms

    def ranges(self, start_document: Document, end_document: Document) -> Sequence[InputPartition]:
        start, end = from_document(start_document), from_document(end_document)
        if not self._topics_checked:
            # After a restart, Spark starts with the batch that was in progress.
            self._run(self._partitions())
        added = sorted(set(end) - set(start))
        start |= self._run(self._planner.offsets(added, OffsetSpec.EARLIEST))
        view = self._planner.cluster.view
        return _input_partitions(
            [range_of(view, p, start[p], end[p]) for p in sorted(end)], self._options
        )

    def commit(self, end_document: Document) -> None:
        """Shows the position to tools that look at groups. Only the checkpoint determines where to
        continue, so a failure is only logged.
        """
        offsets = from_document(end_document)
        if not offsets:
            return
        from floodmark.client.consumer.group_offsets import GroupMetadata, commit_offsets

        try:
            group = GroupMetadata(self._options.group_id)
            self._run(commit_offsets(self._planner.cluster, group, for_display(offsets)))
        except KafkaError as error:
            if not self._warned:
                logger.warning(
                    "could not commit the position of group %s: %s", self._options.group_id, error
                )
            self._warned = True


def _read(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RangePartition)
    # Imported only by workers: a query waits for the driver's new process to be ready.
    if options.latest_by_key:
        from floodmark.pipeline.datasource.latest_rows import read_latest

        return read_latest(options, partition.wanted)
    from floodmark.pipeline.datasource.reading import read_range

    return read_range(options, partition.wanted)


def _input_partitions(ranges: Sequence[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    if options.latest_by_key:
        # The last records of a partition are kept as one.
        return [RangePartition(item) for item in ranges if item.size > 0]
    pieces = split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [RangePartition(piece) for piece in pieces]
