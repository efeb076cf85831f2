"""Writers of the data source `floodmark`: DataFrames to topics, at least once.

Spark creates them on the driver (through `source.py`) and runs `write` in one task per partition.
For exactly once, see `batch_writers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
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

from floodmark.pipeline.datasource.options import WriteOptions, parse_write_options
from floodmark.pipeline.datasource.task_writes import write_rows
from floodmark.pipeline.errors import PipelineError

_HEADER = StructType().add("key", StringType()).add("value", BinaryType())
_COLUMN_TYPES: dict[str, tuple[DataType, ...]] = {
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (ArrayType(_HEADER),),
}


@dataclass
class Written(WriterCommitMessage):
    """A task's report to the driver."""

    rows: int


class TopicWriter(DataSourceArrowWriter):
    """One batch write, at least once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(asyncio.run(write_rows(self._options, iterator)))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A streaming sink, at least once: a batch that failed halfway is written again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(asyncio.run(write_rows(self._options, iterator)))


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Checks the connector's column rules before anything runs. Other columns are ignored."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise PipelineError(
            f"a topic needs a column value, the columns are {', '.join(types) or 'none'}: add "
            "one, for example with to_json(struct(*))"
        )
    if options.topic is not None:
        types.pop("topic", None)
    elif "topic" not in types:
        raise PipelineError("name the topic to write to with the option topic or a column topic")
    for name, allowed in _COLUMN_TYPES.items():
        kind = types.get(name)
        if kind is not None and not any(_is_like(kind, wanted) for wanted in allowed):
            raise PipelineError(
                f"the column {name} is {kind.simpleString()}, but must be "
                f"{' or '.join(wanted.simpleString() for wanted in allowed)}: cast it"
            )


def check_no_other_columns(schema: StructType) -> None:
    """Refuses columns that would not be written, for callers that do not want to ignore them."""
    for name in schema.names:
        if name not in _COLUMN_TYPES:
            raise PipelineError(
                f"a topic cannot hold the column {name}: only {', '.join(_COLUMN_TYPES)} are "
                "written. Put it into value, or drop it"
            )


def _is_like(kind: DataType, wanted: DataType) -> bool:
    """The same type, ignoring nullability."""
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return _is_like(kind.elementType, wanted.elementType)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        return kind.names == wanted.names and all(
            _is_like(ours.dataType, theirs.dataType)
            for ours, theirs in zip(kind.fields, wanted.fields, strict=True)
        )
    return type(kind) is type(wanted)
