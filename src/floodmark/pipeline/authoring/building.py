"""Builds DataFrames from declarations.

Calls the author's functions with what their parameters name.

Called by `runner.py`, which checks and runs. Every output is built separately from its sources,
because each runs as its own query with its own position and group.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from floodmark.pipeline.authoring.declarations import (
    DeclarationError,
    Output,
    Pipeline,
    Place,
    Source,
)
from floodmark.pipeline.authoring.parsing import dead_letters, parse, schema_of
from floodmark.pipeline.authoring.tables import location
from floodmark.pipeline.datasource.options import Options, parse_read_options
from floodmark.pipeline.errors import OptionError, PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

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

    @property
    def target(self) -> str:
        return self.topic or self.table or self.output.spark_format


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
        rows = step.call(output.function, output.place)
        if not rows.isStreaming:
            raise DeclarationError(
                output.place,
                f"{output.name} makes a table, not a stream: start from a source of the pipeline",
            )
        if output.topic is not None:
            rows = _at(output.place, lambda: _topic_rows(output, rows))
        return self._built(output, rows, step)

    def _build_dead_letters(self, source: Source) -> Built:
        name = source.dead_letters_name
        step = _Step(self, name)
        rows = dead_letters(source, step.read(source))
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
            _set_default(options, "topic", topic)
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
        )

    def group_of(self, output_name: str) -> str:
        return f"{self._pipeline.name}.{output_name}"

    def read(self, source: Source, output_name: str) -> DataFrame:
        """A topic's raw rows. A lookup table reads up to the current end for every batch."""
        topic = self._pipeline.text(source.topic, source.place)
        options = self._pipeline.texts(source.options, source.place)
        _set_default(options, "kafka.bootstrap.servers", self._bootstrap_server)
        _set_default(options, "subscribe", topic)
        if not source.is_table:
            _set_default(options, "kafka.group.id", self.group_of(output_name))
            _set_default(options, "startingOffsets", str(source.starting_offsets))
            if self._checkpoint is not None:
                ids_file = self._checkpoint.topic_ids_of(output_name, source.name)
                _set_default(options, "topicIdsFile", ids_file)
        try:
            # Spark asks the data source for them only when a query starts. A check should know
            # earlier.
            parse_read_options(options, streaming=not source.is_table)
        except OptionError as error:
            raise DeclarationError(source.place, str(error)) from error
        reader = self._spark.read if source.is_table else self._spark.readStream
        return reader.format("floodmark").options(**options).load()

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
            arguments[name] = self._get(name, place)
        rows = _call_of_author(function, arguments, place)
        if not isinstance(rows, DataFrame):
            raise DeclarationError(
                place, f"{function.__name__} returned {type(rows).__name__}, not a DataFrame"
            )
        return rows

    def _get(self, name: str, place: Place) -> DataFrame:
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
        self.topics.append(self._builder.pipeline.text(source.topic, source.place))
        return self._builder.read(source, self._output_name)

    def _source(self, source: Source) -> DataFrame:
        raw = self.read(source)
        if source.is_table:
            return _latest_by_key(source, raw)
        rows = _at(source.place, lambda: parse(source, raw))
        if source.watermark is not None:
            column, delay = source.watermark
            delay = self._builder.pipeline.text(delay, source.place)
            rows = _at(source.place, lambda: rows.withWatermark(column, delay))
        return rows


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


def _topic_rows(output: Output, rows: DataFrame) -> DataFrame:
    """Builds the key and value of a topic's records from the author's columns."""
    if output.key is not None and output.key not in rows.columns:
        raise DeclarationError(
            output.place,
            f"the key {output.key} of {output.name} is not a column; the columns are "
            f"{', '.join(rows.columns)}",
        )
    if output.value_format == "raw":
        if "value" not in rows.columns:
            raise DeclarationError(
                output.place,
                f"{output.name} writes raw rows but has no column value; the columns are "
                f"{', '.join(rows.columns)}. Add one, or use format json",
            )
        return rows
    names = [name for name in rows.columns if name != output.key] or list(rows.columns)
    value = F.to_json(F.struct(*map(_column, names))).alias("value")
    if output.key is None:
        return rows.select(value)
    return rows.select(_column(output.key).cast("string").alias("key"), value)


def _column(name: str) -> Column:
    """A column whose name may contain dots, which would otherwise mean a struct field."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


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
