"""Conditions on a record's place and time narrow what is fetched, never the result."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from floodmark.pipeline import where
from floodmark.pipeline.errors import PipelineError
from floodmark.testing import Broker
from kit.topics import fill_topic, make_topic
from kit.traffic import bytes_read

TOPIC = "measured"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 2000


@pytest.fixture(scope="module")
def measured() -> Iterator[Broker]:
    """Two partitions of records a minute apart, each tenth an hour older than its neighbours."""
    with Broker(settings={"log.retention.ms": "-1"}) as broker:
        make_topic(broker.bootstrap_servers, TOPIC, partitions=2)
        for partition in range(2):
            for first in range(0, COUNT, 20):
                at = FIRST + timedelta(minutes=first)
                at -= timedelta(hours=1) if first % 200 == 0 and first else timedelta(0)
                fill_topic(
                    broker.bootstrap_servers,
                    TOPIC,
                    [(None, b"%08d" % i + b"x" * 500) for i in range(first, first + 20)],
                    partition=partition,
                    timestamp_ms=int(at.timestamp() * 1000),
                )
        yield broker


def load(spark: SparkSession, broker: Broker, **options: Any) -> DataFrame:
    reader = spark.read.format("floodmark").option("subscribe", TOPIC)
    # Small fetches: nothing is read ahead that was not asked for.
    reader = reader.option("kafka.max.partition.fetch.bytes", "20000").options(**options)
    return reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()


def places(frame: DataFrame) -> set[tuple[int, int]]:
    return {(row.partition, row.offset) for row in frame.select("partition", "offset").collect()}


LAST_TENTH = FIRST + timedelta(minutes=COUNT * 9 // 10)


def test_a_filter_for_the_last_tenth_by_time_reads_at_most_a_fifth(
    spark: SparkSession, measured: Broker
) -> None:
    before = bytes_read(measured, TOPIC)
    everything = load(spark, measured).selectExpr("sum(length(value)) AS n").collect()[0].n
    whole = bytes_read(measured, TOPIC) - before
    assert everything == 2 * COUNT * 508
    before = bytes_read(measured, TOPIC)
    condition = f"timestamp >= '{LAST_TENTH:%Y-%m-%d %H:%M:%S}'"
    found = places(where(load(spark, measured), condition))
    part = bytes_read(measured, TOPIC) - before
    assert len(found) == 2 * (COUNT // 10 - 20)
    assert 0 < part <= whole / 5, f"{part} of {whole} bytes"


@pytest.mark.parametrize(
    "condition",
    [
        "timestamp > '2026-01-02 06:00:00'",
        "timestamp >= '2026-01-02 06:00:00.0005'",
        "timestamp = '2026-01-02 06:00:00'",
        "timestamp < '2026-01-01 03:00:00'",
        "timestamp BETWEEN '2026-01-01 03:00:00' AND '2026-01-01 05:00:00'",
        "timestamp > '1960-01-01'",
        "timestamp > '2040-01-01'",
        "timestamp > '2026-01-02 08:00:00' OR offset < 5",
        "partition = 1",
        "partition IN (1, 7) AND offset >= 1990",
        "partition > 0 AND partition <= 3 AND offset < 10",
        "partition < 1 AND offset BETWEEN 10 AND 12",
        "offset IN (3, 1500) AND NOT partition = 0",
        "offset > 1997",
        "offset <=> 7",
        "topic = 'measured' AND offset = 0",
        "topic = 'other'",
        "topic LIKE 'meas%' AND offset > 1998",
        "offset = -3",
    ],
)
def test_a_narrowed_read_gives_what_spark_alone_gives(
    spark: SparkSession, measured: Broker, condition: str
) -> None:
    frame = load(spark, measured)
    assert places(where(frame, condition)) == places(frame.where(condition))


def test_one_frame_may_be_read_with_several_conditions_and_without(
    spark: SparkSession, measured: Broker
) -> None:
    frame = load(spark, measured)
    early = where(frame, "offset < 3")
    assert early.count() == 6
    assert frame.count() == 2 * COUNT
    assert where(frame, F.col("partition") == 1).count() == COUNT
    assert early.union(where(frame, "offset >= 1998")).count() == 10


def test_spark_s_own_pushing_of_filters_changes_nothing(
    spark: SparkSession, measured: Broker
) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        frame = load(spark, measured)
        assert frame.where("offset < 3").count() == 6
        assert frame.count() == 2 * COUNT
    finally:
        spark.conf.set(name, str(before))


def test_what_cannot_be_narrowed_is_refused(spark: SparkSession, measured: Broker) -> None:
    with pytest.raises(PipelineError, match="as load\\(\\) returned it"):
        where(load(spark, measured).select("offset"), "offset > 3")
    with pytest.raises(PipelineError, match="as load\\(\\) returned it"):
        where(spark.range(3), "id > 1")
