"""A web shop's clickstream: nested JSON, bad and late events, sessions, joins, state, a table of
files and one in a database.

    floodmark pipeline run examples/clickstream --once \\
        --conf spark.jars.packages=org.xerial:sqlite-jdbc:3.54.1.0

reads the topics clicks, purchases and pages. `tests/spark/test_clickstream.py` runs it on a cluster
whose driver and executors are killed, and compares it with a computation over all records at once.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructType

from floodmark.pipeline import Pipeline

pipeline = Pipeline("clickstream")

# Clicks without an id, or that are no JSON at all, go to the dead letters and stop nothing.
pipeline.source(
    "clicks",
    topic="{prefix}clicks",
    schema="""
        event_id STRING NOT NULL,
        at TIMESTAMP NOT NULL,
        user STRUCT<id: STRING, country: STRING>,
        page STRUCT<url: STRING, referrer: STRING>,
        tags ARRAY<STRING>
    """,
    watermark=("at", "{lateness}"),
    dead_letters="{prefix}clicks-dead",
    options={"maxOffsetsPerTrigger": "{records_per_batch}"},
)
pipeline.source(
    "purchases",
    topic="{prefix}purchases",
    schema="purchase_id STRING NOT NULL, buyer STRING, amount DOUBLE, bought_at TIMESTAMP NOT NULL",
    watermark=("bought_at", "{lateness}"),
    dead_letters="{prefix}purchases-dead",
    options={"maxOffsetsPerTrigger": "{records_per_batch}"},
)
pipeline.lookup("pages", topic="{prefix}pages", key="url", schema="url STRING, category STRING")


@pipeline.temporary_view
def visits(clicks: DataFrame) -> DataFrame:
    """The nested fields that the outputs need, as columns."""
    return clicks.select(
        "event_id",
        "at",
        F.col("user.id").alias("visitor"),
        F.col("user.country").alias("country"),
        F.col("page.url").alias("url"),
        F.array_contains("tags", "campaign").alias("is_campaign"),
    )


@pipeline.sink(topic="{prefix}views", key="event_id")
def views(visits: DataFrame, pages: DataFrame) -> DataFrame:
    """Every click with the category of its page: a join of a stream and a table."""
    return visits.join(pages, "url", "left").select("event_id", "visitor", "category")


@pipeline.sink(topic="{prefix}sessions", key="visitor")
def sessions(visits: DataFrame) -> DataFrame:
    """A visitor's clicks without a pause of half a minute. Late clicks are dropped."""
    grouped = visits.groupBy(F.session_window("at", "30 seconds"), "visitor")
    counted = grouped.agg(F.count("*").alias("clicks"))
    return counted.select(
        "visitor",
        F.unix_seconds("session_window.start").alias("start"),
        F.unix_seconds("session_window.end").alias("end"),
        "clicks",
    )


@pipeline.table("{tables}/attributed")
def attributed(visits: DataFrame, purchases: DataFrame) -> DataFrame:
    """Purchases with the campaign clicks of the minute before: a join of two streams."""
    campaign = visits.where("is_campaign").select("visitor", "at", F.col("event_id").alias("click"))
    near = (F.col("buyer") == F.col("visitor")) & F.col("at").between(
        F.col("bought_at") - F.expr("INTERVAL 1 MINUTE"), F.col("bought_at")
    )
    return purchases.join(campaign, near).select("purchase_id", "click", "amount")


# With a key, a row replaces the one of the same visitor, exactly once per batch.
@pipeline.sink(
    format="jdbc",
    key="visitor",
    output_mode="update",
    options={"url": "{database}", "dbtable": "visitors"},
)
def visitors(visits: DataFrame) -> DataFrame:
    """How often each visitor has clicked so far."""
    return visits.groupBy("visitor").agg(F.count("*").alias("clicks"))


class Numbering(StatefulProcessor):
    """Counts a visitor's clicks for as long as the pipeline lives."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("clicks", StructType().add("count", LongType()))

    def handleInputRows(  # Spark's spelling
        self, key: Any, rows: Iterator[Row], timerValues: Any
    ) -> Iterator[Row]:
        known = self._count.get()
        count = known[0] if known else 0
        for _ in rows:
            count += 1
            yield Row(visitor=key[0], number=count)
        self._count.update((count,))

    def close(self) -> None:
        """Nothing is open."""


@pipeline.sink(topic="{prefix}numbered", key="visitor", output_mode="update")
def numbered(visits: DataFrame) -> DataFrame:
    """Each click's running number for its visitor: state that outlives restarts."""
    result = StructType().add("visitor", StringType()).add("number", LongType())
    return visits.groupBy("visitor").transformWithState(Numbering(), result, "Update", "None")
