"""Streaming reads and both sinks on real Spark."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, StreamingQuery

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.consumer.group_offsets import GroupMetadata, commit_offsets, committed_offsets
from floodmark.pipeline.datasource.batch_marks import Mark, Repeatable
from floodmark.pipeline.datasource.batch_writers import exactly_once
from floodmark.pipeline.datasource.mark_store import MARKS_PARTITION, to_offset
from kit.broker import Broker
from kit.checkpoints import forget_last_commit
from kit.topics import add_partitions, delete_topic, fill_topic, make_topic, read_topic


def stream(spark: SparkSession, broker: Broker, topic: str, **options: Any) -> DataStreamReader:
    reader = spark.readStream.format("floodmark").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(startingOffsets="earliest", **options)


def run_once(frame: DataFrame, checkpoint: str, sink: dict[str, Any]) -> StreamingQuery:
    """Process what is there now, to the end."""
    writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.format(sink.pop("format")).options(**sink).start()
    query.awaitTermination()
    return query


def committed(broker: Broker, group: str, topic: str) -> dict[int, int]:
    async def ask() -> dict[int, int]:
        async with Cluster(broker.bootstrap) as cluster:
            offsets = await committed_offsets(cluster, group)
            return {p.partition: o.offset for p, o in offsets.items() if p.topic == topic}

    return asyncio.run(ask())


def test_a_stream_reads_in_limited_batches_and_goes_on_where_it_stopped(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=2)
    fill_topic(broker.bootstrap, topic, [(b"%d" % i, b"%03d" % i) for i in range(100)])
    output = str(tmp_path / "table")
    options = {"maxOffsetsPerTrigger": 40, "kafka.group.id": f"{topic}-lag"}
    frame = stream(spark, broker, topic, **options).load().selectExpr("CAST(value AS STRING) v")
    query = run_once(frame, checkpoint, {"format": "parquet", "path": output})
    sizes = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(sizes) == 100
    assert max(sizes) <= 42
    latest = json.loads(query.recentProgress[-1]["sources"][0]["latestOffset"] or "{}")
    assert sum(latest[topic].values()) == 100
    assert sum(committed(broker, f"{topic}-lag", topic).values()) >= 60

    fill_topic(broker.bootstrap, topic, [(b"%d" % i, b"%03d" % i) for i in range(100, 120)])
    run_once(frame, checkpoint, {"format": "parquet", "path": output})
    rows = sorted(row.v for row in spark.read.parquet(output).collect())
    assert rows == [f"{i:03d}" for i in range(120)]


def test_a_batch_write_chooses_partitions_as_java_does_and_writes_headers(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=3)
    fill_topic(broker.bootstrap, topic, [(b"key %d" % i, b"ours") for i in range(50)])
    frame = spark.range(50).selectExpr(
        "concat('key ', id) AS key",
        "'spark' AS value",
        "array(struct('from' AS key, cast('test' AS binary) AS value)) AS headers",
    )
    writer = frame.write.format("floodmark").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.option("topic", topic).mode("append").save()
    records = read_topic(broker.bootstrap, topic)
    placed = {
        value: {r.key: r.partition for r in records if r.value == value}
        for value in (b"ours", b"spark")
    }
    assert len(placed[b"spark"]) == 50
    assert placed[b"ours"] == placed[b"spark"]
    assert {tuple(r.headers) for r in records if r.value == b"spark"} == {(("from", b"test"),)}


def test_a_topic_that_takes_only_small_batches_gets_small_ones(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic, configs={"max.message.bytes": "20000"})
    frame = spark.range(100, numPartitions=1).selectExpr("rpad(id, 9000, 'water ') AS value")
    writer = frame.write.format("floodmark").mode("append").option("topic", topic)
    writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
    found = read_topic(broker.bootstrap, topic)
    numbers = [int((record.value or b"").partition(b"w")[0]) for record in found]
    assert numbers == list(range(100))

    large = spark.range(1).selectExpr("repeat('x', 30000) AS value").write.format("floodmark")
    large = large.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic)
    with pytest.raises(Exception, match=r"single row exceeds the topic's max\.message\.bytes"):
        large.mode("append").save()


def test_rows_are_written_back_with_the_columns_they_were_read_with(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    for name in (topic, f"{topic}-out"):
        make_topic(broker.bootstrap, name, partitions=2)
    sent = [(b"%d" % i, b"%d" % i) for i in range(20)]
    fill_topic(broker.bootstrap, topic, sent, headers=[("a", None)])
    reader = spark.read.format("floodmark").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("includeHeaders", "true").option("subscribe", topic).load()
    writer = frame.write.format("floodmark").mode("append").option("topic", f"{topic}-out")
    writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
    copies = [
        sorted((r.partition, r.key, r.value, tuple(r.headers)) for r in found)
        for found in (read_topic(broker.bootstrap, name) for name in (topic, f"{topic}-out"))
    ]
    assert copies[0] == copies[1]
    assert len(copies[0]) == 20


def test_a_checkpoint_of_the_kafka_connector_is_taken_over_and_given_back(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=2)
    for turn, source in enumerate(("kafka", "floodmark", "kafka")):
        rows = [(b"%d" % i, b"%d" % turn) for i in range(10 + turn)]
        fill_topic(broker.bootstrap, topic, rows)
        reader = spark.readStream.format(source).option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
        frame = reader.option("startingOffsets", "earliest").load()
        query = run_once(frame, checkpoint, {"format": "noop"})
        assert sum(p["numInputRows"] for p in query.recentProgress) == 10 + turn


def test_a_topic_that_left_the_subscription_is_data_loss(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    names = [topic, f"{topic}-more"]
    for name in names:
        make_topic(broker.bootstrap, name)
        fill_topic(broker.bootstrap, name, [(None, b"1")])
    run_once(stream(spark, broker, ",".join(names)).load(), checkpoint, {"format": "noop"})
    fill_topic(broker.bootstrap, topic, [(None, b"2")])
    with pytest.raises(Exception, match=rf"stands at offset 1 of {topic}-more-0, but it is gone"):
        run_once(stream(spark, broker, topic).load(), checkpoint, {"format": "noop"})
    frame = stream(spark, broker, topic, failOnDataLoss=False).load()
    query = run_once(frame, checkpoint, {"format": "noop"})
    assert sum(p["numInputRows"] for p in query.recentProgress) == 1


def test_a_topic_that_is_made_anew_under_a_running_query_is_data_loss(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"old")] * 3)
    writer = stream(spark, broker, topic).load().writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        delete_topic(broker.bootstrap, topic)
        make_topic(broker.bootstrap, topic)
        # More than before: the offset that the query stands at is there again, for another record.
        fill_topic(broker.bootstrap, topic, [(None, b"new")] * 9)
        # The query may as well look between the two, and not find the topic; that it knows the new
        # one by its id is tested without Spark.
        with pytest.raises(Exception, match=r"was deleted and recreated|does not exist|it is gone"):
            query.processAllAvailable()
    finally:
        query.stop()


def test_partitions_that_are_added_under_a_running_query_are_read_from_their_beginning(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b"0")])
    frame = stream(spark, broker, topic).load().selectExpr("CAST(value AS STRING) v")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writer.option("path", str(tmp_path / "table")).start()
    try:
        query.processAllAvailable()
        add_partitions(broker.bootstrap, topic, 3)
        for partition in range(3):
            fill_topic(broker.bootstrap, topic, [(None, b"%d" % partition)], partition=partition)
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.v for row in rows) == ["0", "0", "1", "2"]


def test_a_stream_into_a_topic_writes_every_row(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=2)
    make_topic(broker.bootstrap, f"{topic}-out", partitions=2)
    fill_topic(broker.bootstrap, topic, [(b"%d" % i, b"%03d" % i) for i in range(200)])
    frame = stream(spark, broker, topic).load().select("key", "value")
    sink = {
        "format": "floodmark",
        "kafka.bootstrap.servers": broker.bootstrap,
        "topic": f"{topic}-out",
        "kafka.compression.type": "lz4",
    }
    run_once(frame, checkpoint, sink)
    values = sorted(r.value or b"" for r in read_topic(broker.bootstrap, f"{topic}-out"))
    assert values == [b"%03d" % i for i in range(200)]


def write_exactly_once(
    frame: DataFrame, broker: Broker, topic: str, checkpoint: str, **more: Any
) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    write = exactly_once(query=topic, options=options, **more)
    writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.foreachBatch(write).start().awaitTermination()


def test_a_repeated_batch_is_written_once_and_another_cut_is_refused(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic, partitions=2)
    make_topic(broker.bootstrap, f"{topic}-out")
    fill_topic(broker.bootstrap, topic, [(b"%d" % i, b"%03d" % i) for i in range(100)])
    frame = stream(spark, broker, topic).load().select("key", "value")
    write_exactly_once(frame, broker, f"{topic}-out", checkpoint)
    forget_last_commit(Path(checkpoint))
    write_exactly_once(frame, broker, f"{topic}-out", checkpoint)
    values = sorted(r.value or b"" for r in read_topic(broker.bootstrap, f"{topic}-out"))
    assert values == [b"%03d" % i for i in range(100)]

    forget_last_commit(Path(checkpoint))
    cut = stream(spark, broker, topic, minPartitions=6).load().select("key", "value")
    with pytest.raises(Exception, match="started with 2 tasks and would be repeated with 6"):
        write_exactly_once(cut, broker, f"{topic}-out", checkpoint)
    assert len(read_topic(broker.bootstrap, f"{topic}-out")) == 100


def test_a_repeat_whose_rows_changed_and_a_lost_mark_are_refused(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    make_topic(broker.bootstrap, topic)
    make_topic(broker.bootstrap, f"{topic}-out")
    fill_topic(broker.bootstrap, topic, [(None, b"%03d" % i) for i in range(10)])
    frame = stream(spark, broker, topic).load().select("value")
    write_exactly_once(frame, broker, f"{topic}-out", checkpoint)
    forget_last_commit(Path(checkpoint))
    with pytest.raises(Exception, match="not deterministic"):
        write_exactly_once(frame.limit(3), broker, f"{topic}-out", checkpoint)

    async def forget_the_plan() -> None:
        plan = Repeatable(f"{topic}-out", 0, 1).plan_group
        async with Cluster(broker.bootstrap) as cluster:
            marks = {MARKS_PARTITION: to_offset(Mark(7, 1, 0, f"{topic}-out"))}
            await commit_offsets(cluster, GroupMetadata(plan), marks)

    asyncio.run(forget_the_plan())
    with pytest.raises(Exception, match="but batch 7 already was"):
        write_exactly_once(frame, broker, f"{topic}-out", checkpoint)
