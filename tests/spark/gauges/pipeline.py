"""River gauges: every kind of step that a pipeline may have, for the tests to judge."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DoubleType, StringType, StructType

from floodmark.pipeline import Pipeline

pipeline = Pipeline("gauges")

pipeline.source(
    "readings",
    topic="{prefix}-readings",
    schema="id STRING, station STRING, level DOUBLE, at TIMESTAMP",
    watermark=("at", "10 seconds"),
    dead_letters="{prefix}-dead",
)
pipeline.source(
    "alarms",
    topic="{prefix}-alarms",
    format="csv",
    schema="alarm_station STRING, kind STRING, raised_at TIMESTAMP",
    watermark=("raised_at", "10 seconds"),
)
pipeline.lookup(
    "stations", topic="{prefix}-stations", key="station", schema="station STRING, river STRING"
)


@pipeline.sink(topic="{prefix}-levels", key="station")
def levels(readings: DataFrame) -> DataFrame:
    windows = readings.groupBy(F.window("at", "1 minute"), "station")
    means = windows.agg(F.avg("level").alias("mean"), F.count("*").alias("n"))
    return means.select(
        "station", F.date_format("window.start", "HH:mm").alias("minute"), "mean", "n"
    )


@pipeline.table("{tables}/matched")
def matched(readings: DataFrame, alarms: DataFrame) -> DataFrame:
    near = (F.col("station") == F.col("alarm_station")) & F.col("raised_at").between(
        F.col("at"), F.col("at") + F.expr("INTERVAL 5 SECONDS")
    )
    return readings.join(alarms, near, "leftOuter").select("id", "station", "kind")


@pipeline.sink(topic="{prefix}-named", key="id", delivery="at_least_once")
def named(readings: DataFrame, stations: DataFrame) -> DataFrame:
    return readings.join(stations, "station", "left").select("id", "river")


@pipeline.table("{tables}/distinct", partition_cols=["station"])
def distinct(readings: DataFrame) -> DataFrame:
    return readings.dropDuplicatesWithinWatermark(["id"])


class Highest(StatefulProcessor):
    """Keeps the highest level of each station and tells when it rises."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType().add("level", DoubleType())
        self._highest = handle.getValueState("highest", schema)

    def handleInputRows(  # Spark's spelling
        self, key: Any, rows: Iterator[Row], timerValues: Any
    ) -> Iterator[Row]:
        known = self._highest.get()
        top = max([row.level for row in rows] + ([known[0]] if known else []))
        if known is None or top > known[0]:
            self._highest.update((top,))
            yield Row(station=key[0], level=top)

    def close(self) -> None:
        """Nothing is open."""


@pipeline.sink(topic="{prefix}-highest", key="station", output_mode="update")
def highest(readings: DataFrame) -> DataFrame:
    result = StructType().add("station", StringType()).add("level", DoubleType())
    return readings.groupBy("station").transformWithState(Highest(), result, "Update", "None")
