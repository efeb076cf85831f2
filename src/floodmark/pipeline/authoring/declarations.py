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
from typing import TYPE_CHECKING, Any, TypeVar

from floodmark.pipeline.authoring.declared import DeclarationError, Output, Place, Source, View
from floodmark.pipeline.authoring.problems import problem_of_output, problem_of_source

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DeclarationError", "Output", "Pipeline", "Place", "Source", "View"]

F = TypeVar("F", bound=Callable[..., Any])

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Other braces stay, because options may be JSON.
_SETTING = re.compile(r"\{([A-Za-z_][\w-]*)\}")


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
        # Set by `loading.py` if the file can only be loaded while Spark runs.
        self.unfinished: Callable[[], Pipeline] | None = None

    def source(
        self,
        name: str,
        *,
        topic: str | Sequence[str] | None = None,
        pattern: str | None = None,
        format: str = "json",
        schema: str | StructType | None = None,
        watermark: tuple[str, str] | None = None,
        starting_offsets: str = "earliest",
        dead_letters: str | None = None,
        metadata: bool = False,
        headers: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Declares topics as a stream, or with a Spark format and no topic, any source of Spark.

        `topic` is a name or a list of names, `pattern` a regular expression. Rows that do not
        parse go to the topic `dead_letters`, or stop the pipeline if there is none. `metadata`
        adds _key, _topic, _partition, _offset, _timestamp; `headers` adds _headers.
        """
        return self._add_source(
            Source(
                name=name,
                topic=_joined(topic),
                pattern=pattern,
                place=_caller(),
                format=format,
                schema=schema,
                watermark=watermark,
                starting_offsets=starting_offsets,
                dead_letters=dead_letters,
                metadata=metadata,
                headers=headers,
                options=options or {},
            )
        )

    def lookup(
        self,
        name: str,
        *,
        topic: str | None = None,
        key: str | None = None,
        format: str = "json",
        schema: str | StructType | None = None,
        dead_letters: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Source:
        """Declares a topic as a table to join with: each key's last row, read again every batch.

        With a Spark format and no topic, the table is what that format reads, such as jdbc.
        """
        return self._add_source(
            Source(
                name=name,
                topic=topic or "",
                place=_caller(),
                format=format,
                schema=schema,
                key=key,
                is_table=True,
                dead_letters=dead_letters,
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
        name: str | None = None,
        format: str = "parquet",
        partition_cols: Sequence[str] = (),
        trigger: str = "1 second",
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Writes rows into files, exactly once. The default path is tables/NAME.

        With `name`, they go to this table of Spark's catalog, which is created if needed.
        """
        _refuse_function(path, "table()")

        def declare(function: F) -> F:
            own_path = path if name is not None else path or f"tables/{function.__name__}"
            return self._add_output(
                Output(
                    name=function.__name__,
                    function=function,
                    place=_place_of(function),
                    path=None if own_path is None else str(own_path),
                    catalog_table=name,
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
        key: str | Sequence[str] | None = None,
        latest_by: str | None = None,
        output_mode: str = "append",
        delivery: str = "exactly_once",
        trigger: str = "1 second",
        first_exact_batch: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Writes rows to a topic or, with a Spark format and no topic, wherever that writes.

        For a topic, the format is json (all columns except the key) or raw (a column `value`).
        For jdbc, rows replace those with the same `key`, which may be several columns. If a batch
        may hold several rows of a key, the one with the highest `latest_by` counts.
        """
        _refuse_function(topic, 'sink(topic="...")')
        key_columns = (key,) if isinstance(key, str) else tuple(key or ())

        def declare(function: F) -> F:
            to_topic = topic is not None
            return self._add_output(
                Output(
                    name=function.__name__,
                    function=function,
                    place=_place_of(function),
                    topic=topic,
                    key=key_columns[0] if key_columns else None,
                    key_columns=key_columns,
                    latest_by=latest_by,
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

    def batch_sink(
        self,
        function: None = None,
        *,
        output_mode: str = "append",
        trigger: str = "1 second",
    ) -> Callable[[F], F]:
        """Calls the function with every batch of the source or view that its parameter names.

        It gets a plain DataFrame and writes it. A batch may come again after a crash: parameters
        `batch_id` and `query_id` tell whether it was written before.
        """
        _refuse_function(function, "batch_sink()")

        def declare(function: F) -> F:
            return self._add_output(
                Output(
                    name=function.__name__,
                    function=function,
                    place=_place_of(function),
                    writes_batches=True,
                    spark_format="a function of batches",
                    output_mode=output_mode,
                    trigger=trigger,
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
        if problem := problem_of_source(source):
            raise DeclarationError(source.place, problem)
        self.sources[source.name] = source
        return source

    def _add_output(self, output: Output, function: F) -> F:
        self._claim(output.name, output.place)
        if problem := problem_of_output(output):
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


def _joined(topic: str | Sequence[str] | None) -> str:
    return topic if isinstance(topic, str) else ",".join(topic or ())


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
