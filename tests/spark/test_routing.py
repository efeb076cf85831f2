"""Where rows come from and where they go: topics named by rows, and brokers of a source's own."""

import asyncio
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.consumer.group_offsets import committed_offsets
from floodmark.pipeline.authoring.checkpoints import Checkpoint, open_checkpoint
from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.authoring.status import status_of
from floodmark.pipeline.errors import PipelineError
from floodmark.testing import Broker as OtherBroker
from kit.broker import Broker
from kit.topics import fill_topic, make_topic, read_topic


@pytest.fixture
def elsewhere() -> Iterator[OtherBroker]:
    with OtherBroker() as broker:
        yield broker


def run(spark: SparkSession, broker: Broker, pipeline: Pipeline, folder: Path) -> Checkpoint:
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    runner = Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)
    runner.run(once=True)
    return checkpoint


def orders(prefix: str, **more: Any) -> Pipeline:
    pipeline = Pipeline("routing")
    pipeline.source("rows", topic=f"{prefix}-in", schema="id STRING, land STRING", **more)
    return pipeline


@pytest.mark.parametrize("format", ["json", "raw"])
def test_each_row_goes_once_to_the_topic_that_it_names(
    spark: SparkSession, broker: Broker, tmp_path: Path, format: str
) -> None:
    prefix = f"route-{uuid.uuid4().hex[:8]}"
    for name in ("in", "de", "fr"):
        make_topic(broker.bootstrap, f"{prefix}-{name}", partitions=2)
    rows = [(None, b'{"id": "%d", "land": "%s"}' % (i, land)) for i, land in enumerate(_LANDS)]
    fill_topic(broker.bootstrap, f"{prefix}-in", rows)
    pipeline = orders(prefix)

    @pipeline.sink(topic="*", key="id" if format == "json" else None, format=format)
    def routed(rows: Any) -> Any:
        values = ["id"] if format == "json" else ["id AS key", "id AS value"]
        return rows.selectExpr(f"concat('{prefix}-', land) AS topic", *values)

    checkpoint = run(spark, broker, pipeline, tmp_path)
    # The last batch comes again, as after a crash.
    shutil.rmtree(Path(checkpoint.of_output("routed")) / "commits")
    run(spark, broker, pipeline, tmp_path)
    for land in ("de", "fr"):
        numbers = [b"%d" % i for i, name in enumerate(_LANDS) if name.decode() == land]
        records = read_topic(broker.bootstrap, f"{prefix}-{land}")
        assert sorted(record.key or b"" for record in records) == sorted(numbers)
        if format == "json":
            assert {record.value for record in records} <= {b'{"id":"%s"}' % n for n in numbers}


_LANDS = [b"de", b"fr", b"de", b"de", b"fr"] * 8


@pytest.mark.parametrize(
    ("topic", "columns", "message"),
    [
        ("out", ["id AS value", "land AS topic"], "their column topic would be ignored"),
        ("*", ["id AS value"], "has no column topic"),
    ],
)
def test_a_topic_column_is_never_ignored(
    spark: SparkSession, broker: Broker, topic: str, columns: list[str], message: str
) -> None:
    prefix = f"route-{uuid.uuid4().hex[:8]}"
    make_topic(broker.bootstrap, f"{prefix}-in")
    pipeline = orders(prefix)

    @pipeline.sink(topic=topic, format="raw")
    def routed(rows: Any) -> Any:
        return rows.selectExpr(*columns)

    with pytest.raises(PipelineError, match=message):
        Runner(spark, pipeline, bootstrap_server=broker.bootstrap).check()


def group_in(servers: str, group: str) -> int:
    """The sum of the group's offsets in a cluster."""

    async def ask() -> int:
        async with Cluster(servers) as cluster:
            offsets = await committed_offsets(cluster, group)
            return sum(offset.offset for offset in offsets.values())

    return asyncio.run(ask())


def test_a_source_with_its_own_brokers_shows_its_position_and_lag_there(
    spark: SparkSession, broker: Broker, elsewhere: OtherBroker, tmp_path: Path
) -> None:
    prefix = f"route-{uuid.uuid4().hex[:8]}"
    # A topic of the same name, which must not be mistaken for the source.
    make_topic(broker.bootstrap, f"{prefix}-in")
    make_topic(broker.bootstrap, f"{prefix}-out")
    make_topic(elsewhere.bootstrap_servers, f"{prefix}-in")
    rows = [(None, json.dumps({"id": str(i), "land": "de"}).encode()) for i in range(30)]
    fill_topic(elsewhere.bootstrap_servers, f"{prefix}-in", rows)
    options = {"kafka.bootstrap.servers": elsewhere.bootstrap_servers}
    pipeline = orders(prefix, options=options)

    @pipeline.sink(topic=f"{prefix}-out")
    def copied(rows: Any) -> Any:
        return rows

    checkpoint = run(spark, broker, pipeline, tmp_path)
    assert len(read_topic(broker.bootstrap, f"{prefix}-out")) == 30
    assert group_in(elsewhere.bootstrap_servers, "routing.copied") == 30
    assert group_in(broker.bootstrap, "routing.copied") == 0
    fill_topic(elsewhere.bootstrap_servers, f"{prefix}-in", rows[:12])
    (shown,) = asyncio.run(status_of(checkpoint))
    assert shown.lag == 12
