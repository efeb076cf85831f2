"""Writers of the data source `floodmark`: DataFrames into topics, at least once.

Spark makes them on the driver (through `source.py`) and runs `write` in a task per partition.
`batch_writers.py` is for exactly once.
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

from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.options import WriteOptions, parse_write_options
from floodmark.pipeline.task_writes import write_rows

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
    """One batch write, at least once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(asyncio.run(write_rows(self._options, iterator)))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A streaming sink, at least once: a batch that failed half way is written again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_write_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(asyncio.run(write_rows(self._options, iterator)))


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
