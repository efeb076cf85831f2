"""The records of a topic, from an author's columns.

Called by `building.py` for outputs that write to a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from floodmark.pipeline.authoring.declared import DeclarationError, Output
from floodmark.pipeline.authoring.parsing import exact_column
from floodmark.pipeline.datasource.batch_marks import SEVERAL_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def topic_rows(output: Output, rows: DataFrame) -> DataFrame:
    """Builds the key and value of a topic's records from the author's columns."""
    if output.key is not None and output.key not in rows.columns:
        raise DeclarationError(
            output.place,
            f"the key {output.key} of {output.name} is not a column; the columns are "
            f"{', '.join(rows.columns)}",
        )
    _check_topic_column(output, rows)
    if output.value_format == "raw":
        if "value" not in rows.columns:
            raise DeclarationError(
                output.place,
                f"{output.name} writes raw rows but has no column value; the columns are "
                f"{', '.join(rows.columns)}. Add one, or use format json",
            )
        return rows
    is_routed = output.topic == SEVERAL_TOPICS
    kept = [name for name in rows.columns if not (is_routed and name == "topic")]
    names = [name for name in kept if name != output.key] or kept
    columns = [F.to_json(F.struct(*map(exact_column, names))).alias("value")]
    if output.key is not None:
        columns.insert(0, exact_column(output.key).cast("string").alias("key"))
    if is_routed:
        columns.append(exact_column("topic"))
    return rows.select(*columns)


def _check_topic_column(output: Output, rows: DataFrame) -> None:
    has_column = "topic" in rows.columns
    if output.topic == SEVERAL_TOPICS and not has_column:
        raise DeclarationError(
            output.place,
            f'{output.name} writes to topic="*", the topic that each row names, but has no column '
            f"topic; the columns are {', '.join(rows.columns)}",
        )
    if output.topic != SEVERAL_TOPICS and has_column and output.value_format == "raw":
        raise DeclarationError(
            output.place,
            f"all rows of {output.name} go to {output.topic}, so their column topic would be "
            'ignored: drop it, or write topic="*" to send each row to the topic it names',
        )
