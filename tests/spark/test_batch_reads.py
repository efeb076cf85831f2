"""Batch reads on real Spark: rows, ranges, codecs, gaps, headers and what is refused."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from kit.broker import Broker
from kit.topics import fill_topic, make_topic


def read(spark: SparkSession, broker: Broker, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("floodmark").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(subscribe=topic, **options).load()


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def test_rows_have_the_columns_of_the_kafka_connector(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(
        broker.bootstrap, topic, [(b"k", b"v"), (None, None)], timestamp_ms=1_700_000_000_123
    )
    frame = read(spark, broker, topic)
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    first, second = frame.orderBy("offset").collect()
    assert (first.key, first.value, first.topic, first.partition) == (b"k", b"v", topic, 0)
    assert (first.offset, first.timestampType) == (0, 0)
    expected = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert first.timestamp.astimezone(UTC) == expected
    assert (second.key, second.value, second.offset) == (None, None, 1)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(
    spark: SparkSession, broker: Broker, topic: str, compression: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=2)
    sent = [(b"%d" % i, b"value %d " % i * (i % 7)) for i in range(500)]
    fill_topic(broker.bootstrap, topic, sent, compression=compression)
    rows = read(spark, broker, topic).select("key", "value").collect()
    assert sorted((bytes(r.key), bytes(r.value)) for r in rows) == sorted(sent)


def test_offsets_limit_the_range_inside_a_batch(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"%03d" % i) for i in range(100)])
    frame = read(
        spark,
        broker,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10}}),
        endingOffsets=json.dumps({topic: {"0": 15}}),
    )
    assert values(frame) == [b"010", b"011", b"012", b"013", b"014"]


def test_min_partitions_cuts_a_partition_without_loss(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"%03d" % i) for i in range(100)])
    frame = read(spark, broker, topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert values(frame) == [b"%03d" % i for i in range(100)]


def test_headers_come_when_asked_for(spark: SparkSession, broker: Broker, topic: str) -> None:
    make_topic(broker.bootstrap, topic)
    headers = [("a", b"1"), ("a", None)]
    fill_topic(broker.bootstrap, topic, [(None, b"with")], headers=headers)
    fill_topic(broker.bootstrap, topic, [(None, b"without")])
    with_headers, without = (
        read(spark, broker, topic, includeHeaders=True).orderBy("offset").collect()
    )
    assert [(h.key, h.value) for h in with_headers.headers] == headers
    assert without.headers is None


def test_an_empty_topic_gives_no_rows(spark: SparkSession, broker: Broker, topic: str) -> None:
    make_topic(broker.bootstrap, topic, partitions=3)
    assert read(spark, broker, topic).count() == 0


def test_a_time_says_where_to_begin(spark: SparkSession, broker: Broker, topic: str) -> None:
    make_topic(broker.bootstrap, topic)
    for at in (1000, 2000, 3000):
        base = 1_700_000_000_000 + at
        fill_topic(broker.bootstrap, topic, [(None, b"%d" % at)], timestamp_ms=base)
    frame = read(spark, broker, topic, startingTimestamp=1_700_000_001_500)
    assert values(frame) == [b"2000", b"3000"]


def test_a_pattern_reads_all_topics_that_match(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    for suffix in ("a", "b", "c"):
        make_topic(broker.bootstrap, f"{topic}-{suffix}")
        fill_topic(broker.bootstrap, f"{topic}-{suffix}", [(None, suffix.encode())])
    reader = spark.read.format("floodmark").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("subscribePattern", f"{topic}-[ab]").load()
    assert values(frame) == [b"a", b"b"]
    # A part of the name will do, as in the connector.
    frame = reader.option("subscribePattern", topic[6:]).load()
    assert values(frame) == [b"a", b"b", b"c"]


def test_an_unknown_topic_is_named_at_once(spark: SparkSession, broker: Broker, topic: str) -> None:
    with pytest.raises(Exception, match=rf"topic {topic} does not exist.*floodmark topic create"):
        read(spark, broker, topic).count()


def test_offsets_out_of_range_are_data_loss(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"1")])
    options = {
        "startingOffsets": json.dumps({topic: {"0": 5}}),
        "endingOffsets": json.dumps({topic: {"0": 9}}),
    }
    with pytest.raises(Exception, match=r"offsets 5 to 8 .* cannot be read"):
        read(spark, broker, topic, **options).count()
    assert read(spark, broker, topic, failOnDataLoss=False, **options).count() == 0


def test_an_end_behind_the_last_record_is_told_at_once_or_means_the_last_record(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"0"), (None, b"1")])
    end = json.dumps({topic: {"0": 9}})
    with pytest.raises(Exception, match=r"offsets 2 to 8 .* it ends before, at 2"):
        read(spark, broker, topic, endingOffsets=end).count()
    frame = read(spark, broker, topic, endingOffsets=end, failOnDataLoss=False)
    assert values(frame) == [b"0", b"1"]


def test_deleted_records_are_data_loss_and_what_is_left_of_their_batch_is_read(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"%02d" % i) for i in range(20)])
    delete_records(broker.bootstrap, topic, before=12)
    assert values(read(spark, broker, topic)) == [b"%02d" % i for i in range(12, 20)]
    start = json.dumps({topic: {"0": 3}})
    with pytest.raises(Exception, match=r"offsets 3 to 11 .* its first offset is now 12"):
        read(spark, broker, topic, startingOffsets=start).count()
    frame = read(spark, broker, topic, startingOffsets=start, failOnDataLoss=False)
    assert values(frame) == [b"%02d" % i for i in range(12, 20)]


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    async def run() -> None:
        async with Admin(bootstrap) as admin:
            await admin.delete_records({TopicPartition(topic, 0): before})

    asyncio.run(run())
