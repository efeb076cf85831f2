"""A lookup sees every change of its topic, and fetches each record once."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.testing import Broker
from kit.topics import add_partitions, delete_topic, fill_topic, make_topic, read_topic
from kit.traffic import bytes_read

KEYS = 5000


@pytest.fixture(scope="module")
def own() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def latest(spark: SparkSession, broker: Broker, topic: str, **options: Any) -> dict[str, str]:
    """The last value of each key as the data source gives it, one row per key."""
    reader = spark.read.format("floodmark").option("subscribe", topic).options(**options)
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = reader.option("latestByKey", "true").load()
    rows = frame.selectExpr("CAST(key AS STRING) k", "CAST(value AS STRING) v").collect()
    found = {row.k: row.v for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_second_read_fetches_only_what_is_new(spark: SparkSession, own: Broker) -> None:
    servers, topic = own.bootstrap_servers, own.create_topic()
    fill_topic(servers, topic, [(b"%d" % (i % KEYS), b"%d" % i) for i in range(2 * KEYS)])
    expected = {str(i): str(i + KEYS) for i in range(KEYS)}
    assert latest(spark, own, topic) == expected
    whole = bytes_read(own, topic)
    fill_topic(servers, topic, [(b"7", b"new"), (b"8", None), (b"more", b"1"), (b"7", b"newest")])
    expected |= {"7": "newest", "8": None, "more": "1"}
    for _ in range(2):
        assert latest(spark, own, topic) == expected
    assert 0 < bytes_read(own, topic) - whole < 1000


def test_deleted_records_are_gone_and_a_fixed_end_is_kept(spark: SparkSession, own: Broker) -> None:
    servers, topic = own.bootstrap_servers, own.create_topic()
    fill_topic(servers, topic, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4")])
    assert latest(spark, own, topic) == {"a": "3", "b": "2", None: "4"}
    ends = {"endingOffsets": f'{{"{topic}":{{"0":2}}}}'}
    assert latest(spark, own, topic, **ends) == {"a": "1", "b": "2"}

    async def delete_two() -> None:
        async with Admin(servers) as admin:
            await admin.delete_records({TopicPartition(topic, 0): 2})

    asyncio.run(delete_two())
    assert latest(spark, own, topic) == {"a": "3", None: "4"}


def test_a_topic_that_was_made_anew_is_read_anew(spark: SparkSession, own: Broker) -> None:
    servers, topic = own.bootstrap_servers, f"anew-{uuid.uuid4().hex[:8]}"
    make_topic(servers, topic)
    fill_topic(servers, topic, [(b"a", b"1"), (b"b", b"2")])
    assert latest(spark, own, topic) == {"a": "1", "b": "2"}
    delete_topic(servers, topic)
    make_topic(servers, topic)
    fill_topic(servers, topic, [(b"c", b"3"), (b"c", b"4"), (b"c", b"5")])
    assert latest(spark, own, topic) == {"c": "5"}
    add_partitions(servers, topic, 2)
    fill_topic(servers, topic, [(b"d", b"6")], partition=1)
    assert latest(spark, own, topic) == {"c": "5", "d": "6"}


def test_batches_of_a_pipeline_share_one_reading_of_the_topic(
    spark: SparkSession, own: Broker, tmp_path: Path
) -> None:
    servers, prefix = own.bootstrap_servers, f"lookup-{uuid.uuid4().hex[:8]}"
    pipeline = _joining(prefix)
    for name in ("orders", "products", "out"):
        make_topic(servers, f"{prefix}-{name}")
    products = [(b"%d" % i, b'{"product": "%d", "price": %d}' % (i, i)) for i in range(KEYS)]
    fill_topic(servers, f"{prefix}-products", products)
    fill_topic(servers, f"{prefix}-orders", [(None, b'{"product": "%d"}' % i) for i in range(60)])
    checkpoint = open_checkpoint(tmp_path / "checkpoint", pipeline.name, servers)
    Runner(spark, pipeline, bootstrap_server=servers, checkpoint=checkpoint).run(once=True)
    out = sorted(record.value or b"" for record in read_topic(servers, f"{prefix}-out"))
    assert out == sorted(b'{"product":"%d","price":%d}' % (i, i) for i in range(60))
    stored = sum(len(key) + len(value) for key, value in products)
    # Six batches, each of which joins all products.
    assert bytes_read(own, f"{prefix}-products") < 2 * stored


def _joining(prefix: str) -> Pipeline:
    pipeline = Pipeline("joining")
    pipeline.source(
        "orders",
        topic=f"{prefix}-orders",
        schema="product STRING",
        options={"maxOffsetsPerTrigger": "10"},
    )
    pipeline.lookup(
        "products",
        topic=f"{prefix}-products",
        key="product",
        schema="product STRING, price INT",
    )

    @pipeline.sink(topic=f"{prefix}-out")
    def priced(orders: Any, products: Any) -> Any:
        return orders.join(products, "product", "left")

    return pipeline
