"""The declarations of a pipeline file: sources, views and outputs. Nothing runs here.

Users create a `Pipeline` and decorate functions from DataFrame to DataFrame. Parameters name the
sources and views a function needs. The terms follow Spark's declarative pipelines where they fit
(`table`, `temporary_view`, `sink`). Topics, paths, delays, triggers and options may contain
`{name}` for a setting.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Function = Callable[..., "DataFrame"]
F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("json", "csv", "raw", "avro", "protobuf")
OUTPUT_MODES = ("append", "update", "complete")
DELIVERIES = ("exactly_once", "at_least_once")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Other braces stay, because options may be JSON.
_SETTING = re.compile(r"\{([A-Za-z_][\w-]*)\}")


class Place(NamedTuple):
    """A line in the author's file, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


class DeclarationError(PipelineError):
    """An invalid declaration. Says where it is."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place = place


@dataclass(frozen=True)
class Source:
    """A topic as a stream of rows, or with `is_table` as the latest row of each key."""

    name: str
    topic: str
    place: Place
    format: str = "json"
    schema: str | StructType | None = None
    key: str | None = None
    is_table: bool = False
    watermark: tuple[str, str] | None = None
    starting_offsets: str = "earliest"
    dead_letters: str | None = None
    metadata: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dead_letters_name(self) -> str:
        """The name of the output for its dead letters."""
        return f"{self.name}_dead_letters"


@dataclass(frozen=True)
class View:
    """An intermediate step that other functions build on."""

    name: str
    function: Function
    place: Place


@dataclass(frozen=True)
class Output:
    """The target of a function's rows: a topic, a table (files), or any Spark format."""

    name: str
    function: Function
    place: Place
    topic: str | None = None
    key: str | None = None
    value_format: str = "json"
    path: str | None = None
    spark_format: str = "floodmark"
    output_mode: str = "append"
    delivery: str = "exactly_once"
    partition_cols: tuple[str, ...] = ()
    trigger: str = "1 second"
    first_exact_batch: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


class Pipeline:
    """Declares a pipeline: put `pipeline = Pipeline("shop")` at the top of its file."""

    def __init__(self, name: str, *, shuffle_partitions: int = 2, **spark_settings: str) -> None:
        """`spark_settings` are Spark's settings, with underscores for dots."""
        self.place = _caller()
        if not _PIPELINE_NAME.fullmatch(name):
            raise DeclarationError(
                self.place,
                f"{name!r} is not a valid pipeline name: use letters, digits, '.', '_' and '-'",
            )
        self.name = name
        self.shuffle_partitions = shuffle_partitions
        self.spark_settings = {k.replace("_", "."): v for k, v in spark_settings.items()}
        self.sources: dict[str, Source] = {}
        self.views: dict[str, View] = {}
        self.outputs: dict[str, Output] = {}
        # The runner fills these from pipeline.toml, --env and --set before it calls any function.
        self.settings: dict[str, Any] = {}

    def source(
        self,
        name: str,
        *,
        topic: str,
        format: str = "json",
        schema: str | StructType | None = None,
        watermark: tuple[str, str] | None = None,
        starting_offsets: str = "earliest",
        dead_letters: str | None = None,
        metadata: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Declares a topic as a stream.

        Rows that do not parse go to the topic `dead_letters`, or stop the pipeline if there is
        none. `metadata` adds _key, _topic, _partition, _offset, _timestamp.
        """
        return self._add_source(
            Source(
                name=name,
                topic=topic,
                place=_caller(),
                format=format,
                schema=schema,
                watermark=watermark,
                starting_offsets=starting_offsets,
                dead_letters=dead_letters,
                metadata=metadata,
                options=options or {},
            )
        )

    def lookup(
        self,
        name: str,
        *,
        topic: str,
        key: str,
        format: str = "json",
        schema: str | StructType | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Declares a topic as a table to join with: each key's last row, read again every batch."""
        return self._add_source(
            Source(
                name=name,
                topic=topic,
                place=_caller(),
                format=format,
                schema=schema,
                key=key,
                is_table=True,
                options=options or {},
            )
        )

    def temporary_view(self, function: F) -> F:
        """Declares an intermediate step. Other functions ask for it by name."""
        name = function.__name__
        self._claim(name, _place_of(function))
        self.views[name] = View(name, function, _place_of(function))
        return function

    def table(
        self,
        path: str | None = None,
        *,
        format: str = "parquet",
        partition_cols: Sequence[str] = (),
        trigger: str = "1 second",
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Writes rows into files, exactly once. The default path is tables/NAME."""
        _refuse_function(path, "table()")

        def declare(function: F) -> F:
            name = function.__name__
            return self._add_output(
                Output(
                    name=name,
                    function=function,
                    place=_place_of(function),
                    path=str(path or f"tables/{name}"),
                    spark_format=format,
                    partition_cols=tuple(partition_cols),
                    trigger=trigger,
                    options=options or {},
                ),
                function,
            )

        return declare

    def sink(
        self,
        topic: str | None = None,
        *,
        format: str = "json",
        key: str | None = None,
        output_mode: str = "append",
        delivery: str = "exactly_once",
        trigger: str = "1 second",
        first_exact_batch: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Writes rows to a topic or, with a Spark format and no topic, wherever that writes.

        For a topic, the format is json (all columns except the key) or raw (a column `value`).
        """
        _refuse_function(topic, 'sink(topic="...")')

        def declare(function: F) -> F:
            to_topic = topic is not None
            return self._add_output(
                Output(
                    name=function.__name__,
                    function=function,
                    place=_place_of(function),
                    topic=topic,
                    key=key,
                    value_format=format if to_topic else "",
                    spark_format="floodmark" if to_topic else format,
                    output_mode=output_mode,
                    delivery=delivery,
                    trigger=trigger,
                    first_exact_batch=first_exact_batch,
                    options=options or {},
                ),
                function,
            )

        return declare

    def text(self, text: str, place: Place) -> str:
        """A declared text with the settings filled in."""

        def fill(found: re.Match[str]) -> str:
            name = found.group(1)
            if name not in self.settings:
                known = ", ".join(sorted(self.settings)) or "none set"
                raise DeclarationError(
                    place,
                    f"the setting {name} in {text!r} is not set (known: {known}): add it to "
                    "pipeline.toml, or use --set",
                )
            return str(self.settings[name])

        return _SETTING.sub(fill, text)

    def texts(self, options: Mapping[str, Any], place: Place) -> dict[str, str]:
        """Declared options as Spark wants them."""
        return {name: self.text(str(value), place) for name, value in options.items()}

    def _add_source(self, source: Source) -> Source:
        self._claim(source.name, source.place)
        if source.dead_letters is not None:
            self._claim(source.dead_letters_name, source.place)
        if problem := _problem_of_source(source):
            raise DeclarationError(source.place, problem)
        self.sources[source.name] = source
        return source

    def _add_output(self, output: Output, function: F) -> F:
        self._claim(output.name, output.place)
        if problem := _problem_of_output(output):
            raise DeclarationError(output.place, problem)
        self.outputs[output.name] = output
        return function

    def _claim(self, name: str, place: Place) -> None:
        declared: list[Source | View | Output] = [
            *self.sources.values(),
            *self.views.values(),
            *self.outputs.values(),
        ]
        taken = {known.name: known.place for known in declared}
        taken |= {
            source.dead_letters_name: source.place
            for source in self.sources.values()
            if source.dead_letters is not None
        }
        if name in taken:
            raise DeclarationError(place, f"the name {name} is already used, see {taken[name]}")


def _problem_of_source(source: Source) -> str | None:
    name = source.name
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a valid parameter name"
    if source.format not in FORMATS:
        return f"format {source.format!r} is unknown: use one of {', '.join(FORMATS)}"
    if source.schema is None and source.format != "raw":
        example = 'schema="id STRING, amount DOUBLE"'
        return f"source {name} needs a schema to read {source.format}, such as {example}"
    if source.watermark is not None and not _is_pair_of_texts(source.watermark):
        return (
            f"the watermark of {name} is {source.watermark!r}: give the column and how late its "
            'rows may be, such as watermark=("ordered_at", "10 seconds")'
        )
    if source.dead_letters is not None and source.format == "raw":
        return (
            f"raw rows are not parsed, so {name} has no dead letters: remove dead_letters, or "
            "choose another format"
        )
    if source.dead_letters == source.topic:
        return (
            f"the dead letters of {name} would go back to {source.topic} in an endless "
            "loop: name another topic"
        )
    return None


def _problem_of_output(output: Output) -> str | None:
    if output.spark_format in ("json", "raw") and not (output.path or "path" in output.options):
        return (
            f"{output.name} does not say where its rows go: name a topic, or a Spark format "
            'such as format="console"'
        )
    for value, allowed in (
        (output.output_mode, OUTPUT_MODES),
        (output.delivery, DELIVERIES),
        (output.value_format or "json", ("json", "raw")),
    ):
        if value not in allowed:
            return f"{value!r} is invalid: use one of {', '.join(allowed)}"
    return None


def _caller() -> Place:
    """The line in the author's file that called a method here."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Place("?", 0) if frame is None else Place(frame.f_code.co_filename, frame.f_lineno)


def _place_of(function: Callable[..., Any]) -> Place:
    code = function.__code__
    return Place(code.co_filename, code.co_firstlineno)


def _refuse_function(first: object, wanted: str) -> None:
    """Without parentheses, a decorator would get the function and declare nothing."""
    if inspect.isfunction(first):
        raise DeclarationError(_place_of(first), f"write @pipeline.{wanted}, with the parentheses")


def _is_pair_of_texts(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(part, str) for part in value)
    )
