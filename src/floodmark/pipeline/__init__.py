"""Spark pipelines: the data source `floodmark`, and pipelines of decorated functions.

Users import from here. Spark is imported only when needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Pipeline", "PipelineError", "register", "where"]


def register(spark: SparkSession) -> None:
    """Registers `format("floodmark")` with a session, with Python processes that start quickly."""
    from floodmark.pipeline.spark.registration import register_source

    register_source(spark)


def where(frame: DataFrame, condition: str | Column) -> DataFrame:
    """Like `frame.where(condition)` for a topic as `load()` returned it, but fetches less.

    Comparisons of topic, partition, offset and timestamp with constants narrow the read.
    """
    from floodmark.pipeline.spark.conditions import where as narrowed

    return narrowed(frame, condition)
