"""Checks that an output's target can be written, before its query starts.

Called by `runner.py`. Spark itself would tell most of this only when the query starts, or after the
first batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from floodmark.pipeline.authoring.building import Built
from floodmark.pipeline.authoring.declarations import DeclarationError
from floodmark.pipeline.authoring.jdbc_connection import find_driver
from floodmark.pipeline.authoring.jdbc_sink import JDBC, check_upsert
from floodmark.pipeline.datasource.options import Options
from floodmark.pipeline.errors import PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_SOURCES = "org.apache.spark.sql.sources.StreamSinkProvider"
_V2 = "org.apache.spark.sql.connector.catalog.TableProvider"
_FILES = "org.apache.spark.sql.execution.datasources.FileFormat"
_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"
_FILES_V2 = "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"


def check_target(spark: SparkSession, item: Built) -> None:
    """Columns, options and format of a target that is not a topic."""
    if item.topic is not None or item.output.writes_batches:
        return
    try:
        _check_columns(spark, item)
        if item.output.spark_format == JDBC:
            check_upsert(item.output, item.options)
            find_driver(spark, item.options)
        else:
            _check_format(spark, item)
    except PipelineError as error:
        raise DeclarationError(item.output.place, str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        raise DeclarationError(item.output.place, short_text(error)) from error
    except (Py4JError, TypeError) as error:
        # Spark of another version, as a cluster may have. It checks by itself when a query starts.
        logger.debug("%s is not checked: %s", item.target, error)


def _check_columns(spark: SparkSession, item: Built) -> None:
    """Every column that the declaration names must exist. A database distinguishes case."""
    output, columns = item.output, item.rows.columns
    is_exact = spark.conf.get("spark.sql.caseSensitive") == "true"
    known = set(columns) if is_exact else {name.lower() for name in columns}
    latest_by = () if output.latest_by is None else (output.latest_by,)
    missing = [
        *(("key", name) for name in output.key_columns if name not in columns),
        *(("latest_by", name) for name in latest_by if name not in columns),
        *(
            ("partition_cols", name)
            for name in output.partition_cols
            if (name if is_exact else name.lower()) not in known
        ),
    ]
    for what, name in missing:
        raise PipelineError(
            f"{what} of {output.name} names {name}, which is not a column; the columns are "
            f"{', '.join(columns)}"
        )
    if output.partition_cols and len(set(output.partition_cols)) == len(known):
        raise PipelineError(
            f"partition_cols of {output.name} names all of its columns: files need at least one "
            "that is not in their path"
        )


def _check_format(spark: SparkSession, item: Built) -> None:
    jvm: Any = spark.sparkContext._jvm
    session: Any = spark
    name = item.output.spark_format
    if name.lower() == "memory":
        # Spark handles it apart from its data sources.
        return
    conf = session._jsparkSession.sessionState().conf()
    found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)

    def is_a(kind: str) -> bool:
        wanted: bool = jvm.java.lang.Class.forName(kind).isAssignableFrom(found)
        return wanted

    if is_a(_PYTHON):
        # Only its own code knows whether it takes streams.
        return
    if is_a(_FILES) or is_a(_FILES_V2):
        _check_files(jvm, item, found, is_v2=is_a(_FILES_V2))
    elif not is_a(_SOURCES) and not (is_a(_V2) and _takes_streams(jvm, item, found)):
        raise PipelineError(
            f"Spark cannot write {name} as a stream, so {item.output.name} cannot use it: write a "
            "function with @pipeline.batch_sink() that saves each batch"
        )


def _takes_streams(jvm: Any, item: Built, found: Any) -> bool:
    v2 = jvm.org.apache.spark.sql.execution.datasources.v2
    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(dict(item.options))
    nothing = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    table = v2.DataSourceV2Utils.getTableFromProvider(found.newInstance(), options, nothing)
    writing = jvm.org.apache.spark.sql.connector.catalog.TableCapability.STREAMING_WRITE
    return bool(table.capabilities().contains(writing))


def _check_files(jvm: Any, item: Built, found: Any, *, is_v2: bool) -> None:
    output = item.output
    if item.table is None and item.catalog_table is None:
        raise PipelineError(
            f"{output.name} writes {output.spark_format} files but names no folder: use "
            "@pipeline.table, or the option path"
        )
    if output.output_mode != "append":
        raise PipelineError(
            f"files can only be appended: {output.name} has output_mode {output.output_mode}. Use "
            "append with a watermark, a topic, or jdbc with key"
        )
    kind = found.newInstance()
    if is_v2:
        kind = kind.fallbackFileFormat().newInstance()
    frame: Any = item.rows.drop(*output.partition_cols)
    utils = jvm.org.apache.spark.sql.execution.datasources.DataSourceUtils
    utils.verifySchema(kind, frame._jdf.schema(), False)


def check_loops(built: Sequence[Built]) -> None:
    """An output that reads its own rows again would never end."""
    for item in built:
        topic = Options(item.options).text("topic") if item.topic is not None else None
        servers = _addresses(Options(item.options).text("kafka.bootstrap.servers"))
        for stream in item.streams if topic is not None else ():
            is_same = servers & _addresses(stream.bootstrap_servers)
            if topic is not None and is_same and stream.subscription.covers(topic):
                raise DeclarationError(
                    item.output.place,
                    f"{item.output.name} writes to {topic}, which it also reads "
                    f"({stream.subscription}): its rows would come back in an endless loop. Write "
                    "to another topic",
                )
        if item.table is not None and item.table in item.folders:
            raise DeclarationError(
                item.output.place,
                f"{item.output.name} writes to {item.table}, which it also reads: its rows would "
                "come back in an endless loop. Write to another folder",
            )


def _addresses(servers: str | None) -> set[str]:
    return {part.strip() for part in (servers or "").split(",") if part.strip()}
