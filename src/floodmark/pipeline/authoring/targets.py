"""Starts an output's query toward its target.

Called by `runner.py`. A topic, a database and an author's function are written batch by batch, each
with its own way to write a batch once; tables and other formats by Spark's own sinks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from floodmark.pipeline.authoring.batch_functions import batch_function
from floodmark.pipeline.authoring.jdbc_sink import JDBC, jdbc_writer
from floodmark.pipeline.datasource.batch_writers import WriteBatch, at_least_once, exactly_once

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from floodmark.pipeline.authoring.building import Built
    from floodmark.pipeline.authoring.checkpoints import Checkpoint


class _WithoutCallbacks(logging.Filter):
    """Drops py4j's traces of failed batch functions, with Java's whole stack.

    The query fails with the same exception, which the runner reports.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("There was an exception while executing the Python")


_WITHOUT_CALLBACKS = _WithoutCallbacks()


def start_query(item: Built, writer: DataStreamWriter, checkpoint: Checkpoint) -> StreamingQuery:
    # Adds it only once.
    logging.getLogger("py4j.clientserver").addFilter(_WITHOUT_CALLBACKS)
    write_batch = _write_batch(item, checkpoint.query_name(item.output.name))
    if write_batch is not None:
        return writer.foreachBatch(write_batch).start()
    writer = writer.format(item.output.spark_format).options(**item.options)
    if item.output.partition_cols:
        writer = writer.partitionBy(*item.output.partition_cols)
    if item.catalog_table is not None:
        return writer.toTable(item.catalog_table)
    if item.table is not None:
        writer = writer.option("path", item.table)
    return writer.start()


def _write_batch(item: Built, query: str) -> WriteBatch | None:
    """How to write a batch; None if Spark's own sinks do."""
    output = item.output
    if output.writes_batches:
        return batch_function(output, query)
    if output.spark_format == JDBC:
        return jdbc_writer(output, item.options, query)
    if item.topic is None:
        return None
    if output.delivery == "at_least_once":
        return at_least_once(options=item.options)
    return exactly_once(
        query=query, options=item.options, first_exact_batch=output.first_exact_batch
    )
