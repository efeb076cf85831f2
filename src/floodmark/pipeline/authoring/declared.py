"""What a pipeline file has declared: sources, views and outputs, each with its line.

Created by `declarations.py`, read by everything that builds, checks and runs a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Function = Callable[..., "DataFrame"]


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
    """Topics as a stream of rows, or with `is_table` as the latest row of each key.

    Without topics, `format` names one of Spark's own sources.
    """

    name: str
    # Several are separated by commas, as in the option `subscribe`.
    topic: str
    place: Place
    # A regular expression for topics, instead of their names.
    pattern: str | None = None
    format: str = "json"
    schema: str | StructType | None = None
    key: str | None = None
    is_table: bool = False
    watermark: tuple[str, str] | None = None
    starting_offsets: str = "earliest"
    dead_letters: str | None = None
    metadata: bool = False
    headers: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reads_topics(self) -> bool:
        given = {name.lower() for name in self.options}
        return bool(self.topic or self.pattern or given & {"subscribepattern", "assign"})

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
    """The target of a function's rows: a topic, a table, a database, any Spark format, or the
    author's own function of a batch.
    """

    name: str
    function: Function
    place: Place
    topic: str | None = None
    key: str | None = None
    value_format: str = "json"
    path: str | None = None
    # A table in Spark's catalog, by name.
    catalog_table: str | None = None
    # For a database: the columns that identify a row, and the one that says which row is newer.
    key_columns: tuple[str, ...] = ()
    latest_by: str | None = None
    # The author's function writes each batch itself.
    writes_batches: bool = False
    spark_format: str = "floodmark"
    output_mode: str = "append"
    delivery: str = "exactly_once"
    partition_cols: tuple[str, ...] = ()
    trigger: str = "1 second"
    first_exact_batch: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
