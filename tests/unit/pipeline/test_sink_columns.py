"""Which columns a topic takes: what the connector asks, said before anything runs."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from floodmark.pipeline.datasource.encoding import header_bytes
from floodmark.pipeline.datasource.header_columns import header_column
from floodmark.pipeline.datasource.options import parse_write_options
from floodmark.pipeline.datasource.sink import check_columns, check_no_other_columns
from floodmark.pipeline.datasource.source import FloodmarkSource, row_schema
from floodmark.pipeline.errors import OptionError, PipelineError
from floodmark.records.errors import CorruptRecord

TO_TOPIC = parse_write_options({"kafka.bootstrap.servers": "h:1", "topic": "t"})
BY_COLUMN = parse_write_options({"kafka.bootstrap.servers": "h:1"})
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


TEXT = StringType()
OTHER_HEADER = StructType().add("k", TEXT).add("v", BinaryType())


def schema_of(**types: DataType) -> StructType:
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


def test_what_was_read_can_be_written_back_as_it_is() -> None:
    schema = row_schema(include_headers=True)
    check_columns(schema, TO_TOPIC)
    check_columns(schema, BY_COLUMN)
    with pytest.raises(PipelineError, match="cannot hold the column offset"):
        check_no_other_columns(schema)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"v": TEXT}, "needs a column value, the columns are v"),
        ({"value": LongType()}, "value is bigint, but must be string or binary: cast it"),
        ({"value": TEXT, "partition": LongType()}, "partition is bigint, but must be int"),
        ({"value": TEXT, "headers": ArrayType(TEXT)}, "headers is array<string>, but must be"),
        ({"value": TEXT, "headers": ArrayType(OTHER_HEADER)}, "headers is array"),
    ],
)
def test_columns_of_the_wrong_type_are_named(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        check_columns(schema_of(**columns), TO_TOPIC)


def test_a_topic_column_counts_only_without_the_option() -> None:
    schema = schema_of(value=TEXT, topic=IntegerType())
    check_columns(schema, TO_TOPIC)
    with pytest.raises(PipelineError, match="topic is int, but must be string"):
        check_columns(schema, BY_COLUMN)
    with pytest.raises(PipelineError, match="with the option topic or a column topic"):
        check_columns(schema_of(value=TEXT), BY_COLUMN)


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(PipelineError, match="without a key"):
        header_bytes(pa.array([[{"key": None, "value": b"x"}]], HEADERS))
    with pytest.raises(PipelineError, match="without a key"):
        header_bytes(pa.array([[None]], HEADERS))


def test_a_header_name_that_is_no_text_does_not_stop_a_query() -> None:
    # One header with a name of one byte, which is no UTF-8, and an empty value.
    column = header_column(b"\x02\x02\xff\x00", np.array([0]), np.array([4]), HEADERS)
    assert column.to_pylist() == [[{"key": "\ufffd", "value": b""}]]


@pytest.mark.parametrize(
    "data",
    [
        # A thousand headers without a name: the second leads back to the first.
        pytest.param(b"\xd0\x0f\x01\x03", id="round and round"),
        pytest.param(b"\x02\x02n\x7e", id="a value behind the record"),
        pytest.param(b"\x02\x02n\x00rest", id="bytes behind the headers"),
        pytest.param(b"\x01", id="fewer than none"),
        pytest.param(b"\x02" + b"\xff" * 12, id="a number without end"),
    ],
)
def test_headers_that_lie_about_their_length_are_found(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        header_column(data, np.array([0]), np.array([len(data)]), HEADERS)


def test_a_topic_cannot_be_overwritten_nor_have_other_columns() -> None:
    source = FloodmarkSource({"kafka.bootstrap.servers": "h:1", "topic": "t", "subscribe": "t"})
    with pytest.raises(OptionError, match="cannot be overwritten"):
        source.writer(schema_of(value=TEXT), overwrite=True)
    with pytest.raises(OptionError, match=r"remove .schema\(...\)"):
        source.reader(schema_of(value=TEXT))
    with pytest.raises(OptionError, match=r"remove .schema\(...\)"):
        source.streamReader(schema_of(value=TEXT))
