"""The location of a table's files, and a check of the batches in it.

Called by `building.py` and, before a query starts, by `checking.py`. A table keeps its own log of
batches, by number only. Spark skips a batch whose number is there, even if another query wrote it
or it is from before a reset: its rows would be lost silently.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_FOLDER = "_spark_metadata"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def location(path: str) -> str:
    """The full path of a local folder. Addresses such as hdfs://host/folder stay unchanged."""
    return path if _ADDRESS.match(path) else str(Path(path).resolve())


def may_keep_batches(table: str) -> bool:
    """Whether the folder may have Spark's log of batches, which Delta's tables lack."""
    return bool(_ADDRESS.match(table)) or Path(table, _LOG_FOLDER).exists()


def catalog_location(spark: SparkSession, name: str) -> str | None:
    """The folder of a table in Spark's catalog; None if it does not exist or has none."""
    if not spark.catalog.tableExists(name):
        return None
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'")
    return next((str(row["data_type"]) for row in described.collect()), None)


def check_batches(spark: SparkSession, table: str, last_batch: int | None) -> None:
    """`last_batch` is the last one in the query's checkpoint."""
    written = _last_batch_in(spark, table)
    known = -1 if last_batch is None else last_batch
    if written is not None and written > known:
        raise PipelineError(
            f"the table {table} holds batches up to {written}, which this checkpoint lacks: it "
            "belongs to another pipeline or output, or is from before a reset. Spark would treat "
            "the next batches as already written and drop their rows. Move the folder away or "
            "choose another path"
        )


def _last_batch_in(spark: SparkSession, table: str) -> int | None:
    context: Any = spark.sparkContext
    folder = context._jvm.org.apache.hadoop.fs.Path(table, _LOG_FOLDER)
    files = folder.getFileSystem(context._jsc.hadoopConfiguration())
    if not files.exists(folder):
        return None
    names = [status.getPath().getName() for status in files.listStatus(folder)]
    numbers = [name.removesuffix(".compact") for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=None)
