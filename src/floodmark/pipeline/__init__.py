"""Pipelines on Spark: the data source `floodmark`, and pipelines of decorated functions.

Users import from here. Nothing of Spark is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Pipeline", "PipelineError", "register"]


def register(spark: SparkSession) -> None:
    """Make `format("floodmark")` known to a session, with Python processes that begin quickly."""
    from floodmark.pipeline.spark.registration import register_source

    register_source(spark)
