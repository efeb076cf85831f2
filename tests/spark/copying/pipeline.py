"""Copies a topic into a topic and into a table, in many small batches, for tests that kill it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from floodmark.pipeline import Pipeline

pipeline = Pipeline("copying")

pipeline.source(
    "numbers", topic="{prefix}-in", format="raw", options={"maxOffsetsPerTrigger": "100"}
)


@pipeline.sink(topic="{prefix}-out", format="raw", trigger="0 seconds")
def copy(numbers: DataFrame) -> DataFrame:
    return numbers.select("key", "value")


@pipeline.table("{tables}/copy", trigger="0 seconds")
def table(numbers: DataFrame) -> DataFrame:
    return numbers.select(F.col("value").cast("string").alias("number"))
