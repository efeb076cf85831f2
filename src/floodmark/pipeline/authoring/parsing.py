"""Parses topic rows into typed columns, and separates those that cannot be read.

Called by `building.py` and `dead_rows.py`. Spark parses values in its permissive mode. A row it
cannot read keeps its bytes and goes to the dead-letter topic, or stops the query if there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructType

from floodmark.pipeline.authoring.binary_formats import BINARY_FORMATS, PARSED_MARK, with_parsed
from floodmark.pipeline.authoring.declarations import DeclarationError, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PARSED = "_parsed"
CORRUPT = "_corrupt_record"
# Spark reads one JSON document from a text and silently drops what follows. So it gets every value
# inside a document of ours, whose end it finds only after one document, or after one followed by
# more names and documents, which are not a valid list (see `is_one_document`).
_FRAMED = "value"
_END = "end"
_LISTED = "ARRAY<STRUCT<`_`: STRING>>"
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
_METADATA = ("key", "topic", "partition", "offset", "timestamp")


def schema_of(source: Source) -> StructType | None:
    """The declared schema, checked; None for raw rows."""
    if source.schema is None or isinstance(source.schema, StructType):
        return source.schema
    if source.format in BINARY_FORMATS:
        return None
    try:
        schema = StructType.fromDDL(source.schema)
        assert isinstance(schema, StructType)
        return schema
    except (ParseException, AnalysisException) as error:
        raise DeclarationError(
            source.place, f"the schema of {source.name} could not be read: {_first_line(error)}"
        ) from error


def parse(source: Source, rows: DataFrame) -> DataFrame:
    """The good rows, as the author wants them."""
    if source.format == "raw":
        return rows
    parsed = parsed_rows(source, rows)
    bad = is_bad(source)
    if source.dead_letters is not None:
        parsed = parsed.where(~bad)
    else:
        failure = F.raise_error(_complaint(source))
        parsed = parsed.withColumn(_PARSED, F.when(bad, failure).otherwise(F.col(_PARSED)))
    extra = [*(_METADATA if source.metadata else ()), *(("headers",) if source.headers else ())]
    metadata = [F.col(name).alias(f"_{name}") for name in extra]
    result = parsed.select(f"{_fields(source)}.*", *metadata)
    return result.drop(CORRUPT, PARSED_MARK)


def parsed_rows(source: Source, rows: DataFrame) -> DataFrame:
    """Adds a column: a struct with the value's fields and a marker for bad ones."""
    if source.format in BINARY_FORMATS:
        return with_parsed(source, rows, _PARSED)
    schema = schema_of(source)
    assert schema is not None
    text = F.col("value").cast("string")
    if source.format == "csv":
        with_corrupt = StructType([*schema.fields]).add(CORRUPT, StringType())
        return rows.withColumn(_PARSED, F.from_csv(text, ddl_of(with_corrupt), PERMISSIVE))
    framed = F.concat(F.lit('{"' + _FRAMED + '":'), text, F.lit(',"' + _END + '":true}'))
    frame = StructType().add(_FRAMED, schema).add(_END, BooleanType()).add(CORRUPT, StringType())
    return rows.withColumn(_PARSED, F.from_json(framed, frame, PERMISSIVE))


def _fields(source: Source) -> str:
    """The location of the value's fields."""
    return f"{_PARSED}.{_FRAMED}" if source.format == "json" else _PARSED


def is_bad(source: Source) -> Column:
    nothing = F.col(_fields(source)).isNull()
    if source.format == "protobuf":
        return nothing
    if source.format == "avro":
        return nothing | F.col(f"{_PARSED}.{PARSED_MARK}").isNull()
    # Spark replaces bytes that are not text with a special character.
    broken = F.col("value").isNull() | ~F.is_valid_utf8(F.col("value").cast("string"))
    bad = nothing | broken | F.col(f"{_PARSED}.{CORRUPT}").isNotNull()
    for name in required_columns(source):
        bad |= F.col(_fields(source)).getField(name).isNull()
    if source.format == "json":
        return bad | F.col(f"{_PARSED}.{_END}").isNull() | ~is_one_document()
    # Spark turns an empty value into a row of nulls, though it refuses rows that lack a column.
    return bad | (F.length("value") == 0)


def is_one_document() -> Column:
    """Whether nothing follows the document of a value that was read inside its frame.

    In the frame, a comma is followed by a name and a colon; in a list, by a value. Text that is
    valid both ways has neither. The second parse is skipped for an object that only its last
    character can close, as in all objects without nested ones.
    """
    text = F.col("value").cast("string")
    is_closed_once = text.startswith("{") & (F.instr(text, "}") == F.length(text))
    listed = F.from_json(F.concat(F.lit("["), text, F.lit("]")), _LISTED)
    return is_closed_once | F.size(listed).eqNullSafe(1)


def required_columns(source: Source) -> list[str]:
    """The NOT NULL columns, which Spark's parsers ignore."""
    schema = schema_of(source)
    return [] if schema is None else [field.name for field in schema.fields if not field.nullable]


def _complaint(source: Source) -> Column:
    advice = (
        "write the key again with a valid value, or delete it with a tombstone"
        if source.is_table
        else "set dead_letters to a topic for such records"
    )
    return F.format_string(
        # Spark inserts the first part. Otherwise the text would also appear in plans.
        "%s.PipelineError: the record at offset %d of %s-%d does not "
        f"parse as {source.format} with the schema of source {source.name} ({source.place}). "
        f"Correct the schema, or {advice}",
        F.lit("floodmark.pipeline.errors"),
        F.col("offset"),
        F.col("topic"),
        F.col("partition"),
    )


def exact_column(name: str) -> Column:
    """A column whose name may contain dots, which would otherwise mean a struct field."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def ddl_of(schema: StructType) -> str:
    quoted = [(field.name.replace("`", "``"), field.dataType) for field in schema.fields]
    return ", ".join(f"`{name}` {kind.simpleString()}" for name, kind in quoted)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "unknown reason")
