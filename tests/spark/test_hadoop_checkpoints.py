"""Checkpoints and tables on S3: a pipeline goes on from there, one run at a time."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import (
    Checkpoint,
    find_checkpoints,
    held,
    held_checkpoint,
    read_checkpoint,
    remove,
)
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.authoring.status import status_of
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import open_folder, write_whole
from kit.broker import Broker
from kit.s3 import s3_server, s3_settings
from kit.topics import delete_topic, fill_topic, make_topic, read_topic

COPYING = Path(__file__).parent / "copying"


@pytest.fixture(scope="module")
def bucket(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder on an S3 that the session reaches."""
    with s3_server(tmp_path_factory.mktemp("s3"), "floodmark") as endpoint:
        for name, value in s3_settings(endpoint).items():
            spark.conf.set(name.removeprefix("spark.hadoop."), value)
        yield f"s3a://floodmark/{uuid.uuid4().hex[:8]}"


class Copying:
    """The pipeline of tests/spark/copying with everything it keeps on S3."""

    def __init__(self, spark: SparkSession, broker: Broker, bucket: str, rows: int) -> None:
        self.spark = spark
        self.broker = broker
        self.bucket = bucket
        self.prefix = f"s3-{uuid.uuid4().hex[:8]}"
        for name in ("in", "out"):
            make_topic(broker.bootstrap, f"{self.prefix}-{name}")
        self.feed(0, rows)

    def feed(self, first: int, end: int) -> None:
        numbers = [(b"%d" % i, b"%05d" % i) for i in range(first, end)]
        fill_topic(self.broker.bootstrap, f"{self.prefix}-in", numbers)

    def run(self) -> Checkpoint:
        settings = {"prefix": self.prefix, "tables": f"{self.bucket}/tables"}
        pipeline = load_pipeline(COPYING, overrides=settings)
        folder = open_folder(f"{self.bucket}/checkpoints/copying", self.spark)
        servers = self.broker.bootstrap
        with held_checkpoint(folder, pipeline.name, servers) as checkpoint:
            Runner(self.spark, pipeline, bootstrap_server=servers, checkpoint=checkpoint).run(
                once=True
            )
        return checkpoint

    def copied(self) -> list[bytes]:
        return sorted(
            r.value or b"" for r in read_topic(self.broker.bootstrap, f"{self.prefix}-out")
        )

    def archived(self) -> list[bytes]:
        rows = self.spark.read.parquet(f"{self.bucket}/tables/copy").collect()
        return sorted(row.number.encode() for row in rows)


def test_a_pipeline_goes_on_from_s3_and_notices_a_recreated_topic(
    spark: SparkSession, broker: Broker, bucket: str
) -> None:
    copying = Copying(spark, broker, bucket, rows=50)
    copying.run()
    copying.feed(50, 80)
    checkpoint = copying.run()
    expected = [b"%05d" % i for i in range(80)]
    assert copying.copied() == expected
    assert copying.archived() == expected

    found = find_checkpoints(open_folder(f"{bucket}/checkpoints", spark))
    assert [item.pipeline for item in found] == ["copying"]
    shown = asyncio.run(status_of(found[0]))
    assert [(row.output, row.state, row.lag) for row in shown] == [
        ("copy", "stopped", 0),
        ("table", "stopped", 0),
    ]

    # The ids of topics are kept there, too.
    delete_topic(broker.bootstrap, f"{copying.prefix}-in")
    make_topic(broker.bootstrap, f"{copying.prefix}-in")
    copying.feed(0, 100)
    with pytest.raises(PipelineError, match="was deleted and recreated"):
        copying.run()
    (row, *_) = asyncio.run(status_of(found[0]))
    assert row.state == "failed"
    assert "was deleted and recreated" in (row.error or "")

    with held(checkpoint):
        remove(checkpoint)
    assert read_checkpoint(checkpoint.folder) is None


def test_small_files_are_replaced_whole_and_missing_ones_are_told(
    spark: SparkSession, bucket: str
) -> None:
    folder = open_folder(f"{bucket}/small", spark)
    write_whole(folder / "a.json", json.dumps({"text": "grüße"}))
    write_whole(folder / "a.json", "2")
    assert (folder / "a.json").read_text(encoding="utf-8") == "2"
    assert [path.name for path in folder.iterdir()] == ["a.json"]
    assert not (folder / "b.json").exists()
    with pytest.raises(FileNotFoundError):
        (folder / "b.json").read_text(encoding="utf-8")
    assert list((folder / "nowhere").iterdir()) == []


def test_a_file_system_that_spark_lacks_is_told(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"Spark cannot use gs://b/c: .* needs its jar"):
        open_folder("gs://b/c", spark)
