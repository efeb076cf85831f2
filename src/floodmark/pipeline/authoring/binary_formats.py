"""Parses Avro and Protobuf values into columns with Spark's own functions.

Called by `parsing.py`. The functions come in separate jars, which PySpark does not include.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from floodmark.pipeline.authoring.declarations import DeclarationError, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BINARY_FORMATS = ("avro", "protobuf")
# A field that only successfully parsed values have; see `_avro`.
PARSED_MARK = "_floodmark_parsed"

_PERMISSIVE = {"mode": "PERMISSIVE"}
_JAR_IS_MISSING = "NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"


def with_parsed(source: Source, rows: DataFrame, column: str) -> DataFrame:
    """Adds a column: a struct of the value's fields."""
    parser = _avro(source) if source.format == "avro" else _protobuf(source)
    try:
        parsed = rows.withColumn(column, parser)
        # Spark reads a source's schema when the column's fields are first accessed.
        parsed.select(f"{column}.*")
    except AnalysisException as error:
        if _JAR_IS_MISSING not in (error.getCondition() or ""):
            raise
        raise DeclarationError(source.place, _missing_jar(source)) from error
    except Py4JJavaError as error:
        raise _unreadable(source, str(error.java_exception.getMessage())) from error
    return parsed


def _avro(source: Source) -> Column:
    """Spark turns invalid Avro into a row of nulls, which valid values may be as well.

    So it reads with a schema that has an extra field with a default: only parsed values have it.
    """
    from pyspark.sql.avro.functions import from_avro

    written = str(source.schema)
    wanted = _avro_record(source, written)
    mark = {"name": PARSED_MARK, "type": "boolean", "default": True}
    wanted["fields"] = [*wanted["fields"], mark]
    return from_avro("value", written, {**_PERMISSIVE, "avroSchema": json.dumps(wanted)})


def _avro_record(source: Source, text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise _unreadable(source, f"it is not JSON ({error})") from error
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise _unreadable(source, "it must be a record with fields")
    return schema


def _protobuf(source: Source) -> Column:
    """The schema is `message@descriptor file`, as protoc --descriptor_set_out writes it."""
    from pyspark.sql.protobuf.functions import from_protobuf

    message, at, descriptor = str(source.schema).partition("@")
    if not at:
        raise _unreadable(
            source, "name the message and its descriptor file, such as Order@orders.desc"
        )
    try:
        return from_protobuf("value", message, descriptor, _PERMISSIVE)
    except OSError as error:
        raise _unreadable(source, f"{descriptor}: {error.strerror}") from error


def _unreadable(source: Source, why: str) -> DeclarationError:
    text = why.strip().splitlines()[0] if why.strip() else "unknown reason"
    return DeclarationError(source.place, f"the schema of {source.name} could not be read: {text}")


def _missing_jar(source: Source) -> str:
    from pyspark import __version__ as version

    package = f"spark-{source.format}"
    return (
        f"source {source.name} uses {source.format}, which needs Spark's package {package}, "
        "but that is not loaded. Run with --conf "
        f"spark.jars.packages=org.apache.spark:{package}_2.13:{version}, or with --conf "
        "spark.jars=FILE if you have the jar"
    )
