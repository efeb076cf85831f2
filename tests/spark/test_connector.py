"""Spark's own Kafka connector works with our broker: batch, streams, windows, joins, write back."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kit.broker import Broker
from kit.topics import fill_topic, make_topic, read_topic


def batch(spark: SparkSession, broker: Broker, topic: str, source: str = "kafka") -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).load()


def stream(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("startingOffsets", "earliest")
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).load()


def test_both_sources_give_the_same_rows(spark: SparkSession, broker: Broker, topic: str) -> None:
    make_topic(broker.bootstrap, topic, partitions=3)
    sent = [(b"%d" % i if i % 3 else None, b"value %d" % i) for i in range(300)]
    fill_topic(broker.bootstrap, topic, sent, compression="zstd")
    theirs, ours = batch(spark, broker, topic), batch(spark, broker, topic, "floodmark")
    assert theirs.schema == ours.schema
    assert theirs.exceptAll(ours).count() == 0
    assert ours.count() == 300


def test_a_stream_with_windows_and_a_join_writes_back_through_the_connector(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    names = f"{topic}-names"
    for name in (topic, names, f"{topic}-out"):
        make_topic(broker.bootstrap, name, partitions=2)
    fill_topic(broker.bootstrap, names, [(b"a", b"Rhine"), (b"b", b"Elbe")])
    for second in (0, 20, 600):
        at = 1_700_000_000_000 + second * 1000
        fill_topic(broker.bootstrap, topic, [(b"a", b"1"), (b"b", b"2")], timestamp_ms=at)
    table = batch(spark, broker, names).selectExpr("key", "CAST(value AS STRING) river")
    rows = stream(spark, broker, topic).withWatermark("timestamp", "1 minute").join(table, "key")
    totals = rows.groupBy(F.window("timestamp", "5 minutes"), "river").agg(
        F.sum(F.col("value").cast("string").cast("int")).alias("total")
    )
    out = totals.selectExpr("river AS key", "CAST(total AS STRING) AS value")
    writer = out.writeStream.format("kafka").option("topic", f"{topic}-out")
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).outputMode("update")
    writer.start().awaitTermination()
    found = sorted((r.key, r.value) for r in read_topic(broker.bootstrap, f"{topic}-out"))
    assert found == [(b"Elbe", b"2"), (b"Elbe", b"4"), (b"Rhine", b"1"), (b"Rhine", b"2")]
