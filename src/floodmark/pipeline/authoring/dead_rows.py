"""The records that do not parse, as dead letters that say why.

Called by `building.py`. A dead letter has the original key, value and headers, and headers of ours
with the reason, the column, and the place of the record. Only bad records are diagnosed, so it may
take several parses to find the column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from floodmark.pipeline.authoring.dead_letters import PREFIX
from floodmark.pipeline.authoring.parsing import (
    CORRUPT,
    PERMISSIVE,
    ddl_of,
    is_bad,
    is_one_document,
    parsed_rows,
    required_columns,
    schema_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from floodmark.pipeline.authoring.declared import Source

_HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_DIAGNOSIS = "_diagnosis"
# A value in a header is for people, and may be as long as the record.
_SHOWN_CHARACTERS = 80


class _Finding(NamedTuple):
    applies: Column
    reason: Column
    column: str | None = None


def dead_letters(source: Source, rows: DataFrame) -> DataFrame:
    """The bad rows: the original key, value and headers, with the reason and origin in headers."""
    bad = parsed_rows(source, rows).where(is_bad(source))
    if source.is_table:
        # In a table, a tombstone removes its key.
        bad = bad.where(F.col("value").isNotNull())
    bad = bad.withColumn(_DIAGNOSIS, _diagnosis(source))
    ours = {
        "error": F.concat(
            F.lit(f"the value does not parse as {source.format} with the schema of {source.name}"),
            F.coalesce(F.concat(F.lit(": "), F.col(f"{_DIAGNOSIS}.reason")), F.lit("")),
        ),
        "column": F.col(f"{_DIAGNOSIS}.column"),
        "source": F.lit(source.name),
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "timestamp": F.unix_millis("timestamp").cast("string"),
    }
    return bad.select("key", "value", F.concat(_original_headers(), _array(ours)).alias("headers"))


def _array(headers: dict[str, Column]) -> Column:
    entries = [
        F.struct(F.lit(PREFIX + name).alias("key"), value.cast("binary").alias("value"))
        for name, value in headers.items()
    ]
    return F.filter(F.array(*entries).cast(_HEADERS), lambda entry: entry.value.isNotNull())


def _original_headers() -> Column:
    """Without those of an earlier dead letter, as after a redrive that failed again."""
    kept = F.filter("headers", lambda entry: ~entry.key.startswith(PREFIX))
    return F.coalesce(kept, F.array().cast(_HEADERS))


def _diagnosis(source: Source) -> Column:
    """The first finding that applies, or null."""
    text = F.col("value").cast("string")
    findings = [_Finding(F.col("value").isNull(), F.lit("it is null (a tombstone)"))]
    schema = schema_of(source)
    if source.format in ("json", "csv") and schema is not None:
        findings.append(_Finding(~F.is_valid_utf8(text), F.lit("it is not valid UTF-8")))
        find = _in_json if source.format == "json" else _in_csv
        findings += find(text, schema, required_columns(source))
    result = F.lit(None).cast("STRUCT<reason: STRING, column: STRING>")
    for finding in reversed(findings):
        row = F.struct(
            finding.reason.alias("reason"),
            F.lit(finding.column).cast("string").alias("column"),
        )
        result = F.when(finding.applies, row).otherwise(result)
    return result


def _in_json(text: Column, schema: StructType, required: list[str]) -> list[_Finding]:
    texts = F.from_json(text, "MAP<STRING, STRING>")
    findings = [
        _Finding(F.try_parse_json(text).isNull(), F.lit("it is not valid JSON")),
        _Finding(texts.isNull(), F.lit("it is not a JSON object")),
        _Finding(~is_one_document(), F.lit("it is not exactly one JSON document")),
    ]
    for field in schema.fields:
        alone = StructType([field]).add(CORRUPT, StringType())
        parsed = F.from_json(text, ddl_of(alone), PERMISSIVE)
        findings.append(_wrong_type(parsed, field, texts.getItem(field.name)))
        if field.name in required:
            findings.append(_missing(parsed.getField(field.name), field))
    return findings


def _in_csv(text: Column, schema: StructType, required: list[str]) -> list[_Finding]:
    texts = F.from_csv(text, ddl_of(_csv_schema(schema, None)), PERMISSIVE)
    count = len(schema.fields)
    wrong_count = F.lit(f"it does not have exactly {count} columns")
    findings = [
        _Finding(F.length(text) == 0, F.lit("it is empty")),
        _Finding(texts.getField(CORRUPT).isNotNull(), wrong_count),
    ]
    for field in schema.fields:
        parsed = F.from_csv(text, ddl_of(_csv_schema(schema, field)), PERMISSIVE)
        findings.append(_wrong_type(parsed, field, texts.getField(field.name)))
        if field.name in required:
            findings.append(_missing(parsed.getField(field.name), field))
    return findings


def _csv_schema(schema: StructType, typed: StructField | None) -> StructType:
    """All columns as texts, except one."""
    result = StructType()
    for field in schema.fields:
        result.add(field.name, field.dataType if field == typed else StringType())
    return result.add(CORRUPT, StringType())


def _wrong_type(parsed: Column, field: StructField, text: Column) -> _Finding:
    begin = F.lit(f"column {field.name} is not {field.dataType.simpleString()}: ")
    shown = F.substring(F.coalesce(text, F.lit("")), 1, _SHOWN_CHARACTERS)
    return _Finding(parsed.getField(CORRUPT).isNotNull(), F.concat(begin, shown), column=field.name)


def _missing(value: Column, field: StructField) -> _Finding:
    reason = F.lit(f"column {field.name} is missing or null, but declared NOT NULL")
    return _Finding(value.isNull(), reason, column=field.name)
