"""Builds DataFrames from declarations.

Calls the author's functions with what their parameters name.

Called by `runner.py`, which checks and runs. Every output is built separately from its sources,
because each runs as its own query with its own position and group.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from floodmark.pipeline.authoring.batch_functions import batch_input
from floodmark.pipeline.authoring.dead_rows import dead_letters
from floodmark.pipeline.authoring.declarations import (
    DeclarationError,
    Output,
    Pipeline,
    Place,
    Source,
)
from floodmark.pipeline.authoring.jdbc_sink import JDBC, set_driver
from floodmark.pipeline.authoring.parsing import parse, schema_of
from floodmark.pipeline.authoring.replays import declared_start, start_replay
from floodmark.pipeline.authoring.tables import location
from floodmark.pipeline.authoring.topic_rows import topic_rows
from floodmark.pipeline.datasource.batch_marks import SEVERAL_TOPICS
from floodmark.pipeline.datasource.options import Options, ReadOptions, parse_read_options
from floodmark.pipeline.errors import OptionError, PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.checkpoints import Checkpoint


@dataclass(frozen=True)
class Built:
    """An output, its rows as the target wants them, and its texts with all settings."""

    output: Output
    rows: DataFrame
    # The topics it reads.
    topics: tuple[str, ...]
    # One of these is its target, unless Spark's format alone determines it.
    topic: str | None
    table: str | None
    trigger: str
    options: Mapping[str, str]
    # How it reads its streams of topics, and for people, what else it reads.
    streams: tuple[ReadOptions, ...] = ()
    others: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    # Where each source starts, as declared.
    starts: Mapping[str, str] = field(default_factory=dict)
    # A table of Spark's catalog.
    catalog_table: str | None = None

    @property
    def target(self) -> str:
        known = self.topic or self.table or self.catalog_table
        if known is None and self.output.spark_format == JDBC:
            known = f"jdbc {Options(self.options).text('dbtable')}"
        return known or self.output.spark_format

    @property
    def inputs(self) -> str:
        return ", ".join([*self.topics, *self.others])


class Builder:
    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        bootstrap_server: str,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._bootstrap_server = bootstrap_server
        self._checkpoint = checkpoint

    def build_all(self) -> list[Built]:
        if not self._pipeline.outputs:
            raise DeclarationError(
                self._pipeline.place,
                f"pipeline {self._pipeline.name} has no output: decorate a function with "
                "@pipeline.sink(...) or @pipeline.table()",
            )
        built = [self.build(output) for output in self._pipeline.outputs.values()]
        return built + [
            self._build_dead_letters(source)
            for source in self._pipeline.sources.values()
            if source.dead_letters is not None
        ]

    def build(self, output: Output) -> Built:
        step = _Step(self, output.name)
        if output.writes_batches:
            rows = step.get(batch_input(self._pipeline, output), output.place)
        else:
            rows = step.call(output.function, output.place)
        if not rows.isStreaming:
            raise DeclarationError(
                output.place,
                f"{output.name} makes a table, not a stream: start from a source of the pipeline",
            )
        if output.topic is not None:
            rows = _at(output.place, lambda: topic_rows(output, rows))
        return self._built(output, rows, step)

    def _build_dead_letters(self, source: Source) -> Built:
        name = source.dead_letters_name
        step = _Step(self, name)
        rows = _at(source.place, lambda: dead_letters(source, step.read_all(source)))
        output = Output(
            name=name,
            function=_no_function,
            place=source.place,
            topic=source.dead_letters,
            value_format="raw",
        )
        return self._built(output, rows, step)

    def _built(self, output: Output, rows: DataFrame, step: _Step) -> Built:
        def fill(text: str) -> str:
            return self._pipeline.text(text, output.place)

        options = self._pipeline.texts(output.options, output.place)
        topic = None if output.topic is None else fill(output.topic)
        if topic is not None:
            _set_default(options, "kafka.bootstrap.servers", self._bootstrap_server)
            if topic != SEVERAL_TOPICS:
                _set_default(options, "topic", topic)
        if output.spark_format == JDBC:
            set_driver(options)
        # Options are already filled in, and a setting's value stays as it is.
        path = fill(output.path) if output.path else Options(options).text("path")
        return Built(
            output,
            rows,
            topics=tuple(step.topics),
            topic=topic,
            table=None if path is None else location(path),
            trigger=fill(output.trigger),
            options=options,
            streams=tuple(step.streams),
            others=tuple(step.others),
            folders=tuple(step.folders),
            starts=dict(step.starts),
            catalog_table=None if output.catalog_table is None else fill(output.catalog_table),
        )

    def group_of(self, output_name: str) -> str:
        return f"{self._pipeline.name}.{output_name}"

    def read(self, source: Source, output_name: str) -> tuple[DataFrame, ReadOptions]:
        """A topic's raw rows. A lookup table reads up to the current end for every batch."""
        options = self._topic_options(source)
        if source.is_table:
            _set_default(options, "latestByKey", "true")
        else:
            _set_default(options, "kafka.group.id", self.group_of(output_name))
            _set_default(options, "startingOffsets", str(source.starting_offsets))
        try:
            if not source.is_table:
                self._continue(options, source, output_name)
            # Spark asks the data source for them only when a query starts. A check should know
            # earlier.
            parsed = parse_read_options(options, streaming=not source.is_table)
        except OptionError as error:
            raise DeclarationError(source.place, str(error)) from error
        reader = self._spark.read if source.is_table else self._spark.readStream
        return reader.format("floodmark").options(**options).load(), parsed

    def _topic_options(self, source: Source) -> dict[str, str]:
        options = self._pipeline.texts(source.options, source.place)
        _set_default(options, "kafka.bootstrap.servers", self._bootstrap_server)
        if source.pattern is not None:
            _set_default(
                options, "subscribePattern", self._pipeline.text(source.pattern, source.place)
            )
        elif source.topic:
            _set_default(options, "subscribe", self._pipeline.text(source.topic, source.place))
        if source.headers:
            _set_default(options, "includeHeaders", "true")
        return options

    def _continue(self, options: dict[str, str], source: Source, output_name: str) -> None:
        """What a checkpoint adds: the ids of the topics, and where a replay starts."""
        if self._checkpoint is None:
            return
        ids_file = self._checkpoint.topic_ids_of(output_name, source.name)
        _set_default(options, "topicIdsFile", ids_file)
        start_replay(options, self._checkpoint.replayed_from(output_name))

    def read_spark(self, source: Source) -> DataFrame:
        """What one of Spark's own sources reads."""
        reader: Any = self._spark.read if source.is_table else self._spark.readStream
        reader = reader.format(source.format)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        options = self._pipeline.texts(source.options, source.place)
        if source.format == JDBC:
            set_driver(options)
        rows: DataFrame = _at(source.place, reader.options(**options).load)
        return rows

    @property
    def pipeline(self) -> Pipeline:
        return self._pipeline


def _set_default(options: dict[str, str], name: str, value: str) -> None:
    """Sets an option unless it is given. Option names are case-insensitive."""
    if name.lower() not in map(str.lower, options):
        options[name] = value


def _no_function() -> DataFrame:
    raise AssertionError("the author's functions do not produce dead letters")


class _Step:
    """One output under construction: the inputs its functions asked for, each built once."""

    def __init__(self, builder: Builder, output_name: str) -> None:
        self._builder = builder
        self._output_name = output_name
        self._made: dict[str, DataFrame] = {}
        self._calling: list[str] = []
        self.topics: list[str] = []
        self.streams: list[ReadOptions] = []
        self.others: list[str] = []
        self.folders: list[str] = []
        self.starts: dict[str, str] = {}

    def call(self, function: Callable[..., DataFrame], place: Place) -> DataFrame:
        pipeline = self._builder.pipeline
        arguments = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in pipeline.sources and name not in pipeline.views:
                if parameter.default is not inspect.Parameter.empty:
                    continue
                known = ", ".join([*pipeline.sources, *pipeline.views]) or "none declared"
                raise DeclarationError(
                    place,
                    f"{function.__name__} asks for {name}, which is not a source or view "
                    f"(known: {known})",
                )
            arguments[name] = self.get(name, place)
        rows = _call_of_author(function, arguments, place)
        if not isinstance(rows, DataFrame):
            raise DeclarationError(
                place, f"{function.__name__} returned {type(rows).__name__}, not a DataFrame"
            )
        return rows

    def get(self, name: str, place: Place) -> DataFrame:
        if name in self._made:
            return self._made[name]
        pipeline = self._builder.pipeline
        source = pipeline.sources.get(name)
        if source is not None:
            rows = self._source(source)
        else:
            if name in self._calling:
                raise DeclarationError(
                    place, f"the views {' -> '.join([*self._calling, name])} ask for each other"
                )
            self._calling.append(name)
            rows = self.call(pipeline.views[name].function, pipeline.views[name].place)
            self._calling.pop()
        self._made[name] = rows
        return rows

    def read(self, source: Source) -> DataFrame:
        schema_of(source)
        rows, options = self._builder.read(source, self._output_name)
        self.topics.append(str(options.subscription))
        if not source.is_table:
            self.streams.append(options)
            given = self._builder.pipeline.texts(source.options, source.place)
            self.starts[source.name] = declared_start(str(source.starting_offsets), given)
        return rows

    def read_all(self, source: Source) -> DataFrame:
        """All records as a stream, with headers, whatever the source is otherwise."""
        return self.read(replace(source, is_table=False, headers=True))

    def _source(self, source: Source) -> DataFrame:
        if not source.reads_topics:
            options = self._builder.pipeline.texts(source.options, source.place)
            path = Options(options).text("path")
            self.others.append(source.format if path is None else f"{source.format} {path}")
            if path is not None and not source.is_table:
                self.folders.append(location(path))
            return self._with_watermark(source, self._builder.read_spark(source))
        raw = self.read(source)
        if source.is_table:
            return _latest_by_key(source, raw)
        return self._with_watermark(source, _at(source.place, lambda: parse(source, raw)))

    def _with_watermark(self, source: Source, rows: DataFrame) -> DataFrame:
        if source.watermark is None:
            return rows
        column, delay = source.watermark
        delay = self._builder.pipeline.text(delay, source.place)
        return _at(source.place, lambda: rows.withWatermark(column, delay))


def _latest_by_key(source: Source, raw: DataFrame) -> DataFrame:
    """The last row of each key. A key whose last record is a tombstone is removed.

    Within a partition, offsets determine the last row, because producers may set any timestamp.
    Timestamps count only if a key is in several partitions, as after adding some.
    """
    record = F.struct(*raw.columns[1:])
    by_partition = raw.groupBy("key", "partition").agg(F.max_by(record, "offset").alias("r"))
    newest = F.max_by("r", F.struct("r.timestamp", "partition")).alias("r")
    last = by_partition.groupBy("key").agg(newest)
    alive = last.where(F.col("key").isNull() | F.col("r.value").isNotNull())
    rows = _at(source.place, lambda: parse(source, alive.select("key", "r.*")))
    if source.key is not None and source.key not in rows.columns:
        raise DeclarationError(
            source.place,
            f"the table {source.name} has no column {source.key}: it has {', '.join(rows.columns)}",
        )
    return rows


def _call_of_author(
    function: Callable[..., Any], arguments: Mapping[str, Any], place: Place
) -> Any:
    try:
        return function(**arguments)
    except PipelineError:
        raise
    except PySparkException as error:
        raise DeclarationError(_line_of(error, place), short_text(error)) from error
    except Exception as error:
        # It happened in the author's code, so its line helps more than our stack.
        raise DeclarationError(
            _line_of(error, place), f"{function.__name__} failed: {type(error).__name__}: {error}"
        ) from error


def _at(place: Place, work: Callable[[], DataFrame]) -> DataFrame:
    """Reports Spark's errors in a declaration with its line."""
    try:
        return work()
    except PySparkException as error:
        raise DeclarationError(place, short_text(error)) from error


def _line_of(error: Exception, place: Place) -> Place:
    """The line in the author's file where it happened."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == place.file and frame.lineno is not None:
            return Place(frame.filename, frame.lineno)
    return place
