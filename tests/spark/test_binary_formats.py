"""Avro through Spark's own function; what is missing for it, or wrong with it, is told."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.declarations import DeclarationError, Pipeline
from floodmark.pipeline.authoring.runner import Runner
from kit.broker import Broker
from kit.topics import fill_topic, make_topic, read_topic

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": ["null", "string"]},
            {"name": "amount", "type": ["null", "int"]},
        ],
    }
)
# Lengths and numbers are zigzagged, and a union begins with the number of its branch.
RIVER = b"\x02\x0aRhine\x02\x06"
ALL_NULL = b"\x00\x00"
NO_AVRO = b"\xff\xff\xff"


def declared(
    topic: str, *, format: str = "avro", schema: str = SCHEMA, dead: str | None
) -> Pipeline:
    pipeline = Pipeline("binary")
    pipeline.source("orders", topic=topic, format=format, schema=schema, dead_letters=dead)

    @pipeline.sink(topic=f"{topic}-out")
    def out(orders: DataFrame) -> DataFrame:
        return orders

    return pipeline


def runner(spark: SparkSession, broker: Broker, pipeline: Pipeline, folder: Path) -> Runner:
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    return Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)


def test_avro_is_read_and_what_is_no_avro_becomes_a_dead_letter(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-out", f"{topic}-dead"):
        make_topic(broker.bootstrap, name)
    fill_topic(broker.bootstrap, topic, [(b"k", v) for v in (RIVER, NO_AVRO, ALL_NULL)])
    pipeline = declared(topic, dead=f"{topic}-dead")
    runner(spark, broker, pipeline, tmp_path).run(once=True)
    out = read_topic(broker.bootstrap, f"{topic}-out")
    assert [json.loads(r.value or b"") for r in out] == [{"id": "Rhine", "amount": 3}, {}]
    [letter] = read_topic(broker.bootstrap, f"{topic}-dead")
    assert letter.value == NO_AVRO
    assert dict(letter.headers)["floodmark.offset"] == b"1"


@pytest.mark.parametrize(
    ("format", "schema", "said"),
    [
        ("avro", "{nonsense", "the schema of orders could not be read: it is not JSON"),
        ("avro", '"string"', "it must be a record with fields"),
        ("avro", '{"type": "record", "name": "O", "fields": [{"name": "a"}]}', "could not be read"),
        ("protobuf", "Order", "name the message and its descriptor file"),
        ("protobuf", "Order@nowhere.desc", "nowhere.desc: No such file"),
    ],
)
def test_a_schema_that_cannot_be_read_is_told_with_its_line(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    format: str,
    schema: str,
    said: str,
) -> None:
    make_topic(broker.bootstrap, topic)
    make_topic(broker.bootstrap, f"{topic}-out")
    pipeline = declared(topic, format=format, schema=schema, dead=None)
    with pytest.raises(DeclarationError, match=said) as raised:
        runner(spark, broker, pipeline, tmp_path).run(once=True)
    assert "test_binary_formats.py:" in str(raised.value)


def test_a_missing_jar_is_named_with_the_way_to_get_it(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Protobuf's jar is not in this session; Avro's would be told of in the same way."""
    make_topic(broker.bootstrap, topic)
    make_topic(broker.bootstrap, f"{topic}-out")
    descriptor = tmp_path / "orders.desc"
    descriptor.write_bytes(b"")
    pipeline = declared(topic, format="protobuf", schema=f"Order@{descriptor}", dead=None)
    said = r"not loaded. Run with --conf spark.jars.packages=org.apache.spark:spark-protobuf_2.13:"
    with pytest.raises(DeclarationError, match=said):
        runner(spark, broker, pipeline, tmp_path).run(once=True)
