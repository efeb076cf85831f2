"""The pipeline of tests/spark/copying: its topics and folders, as a process or in a thread.

Used by the tests that kill it, its broker or its cluster.
"""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from kit.pipeline_process import PipelineProcess
from kit.topics import end_offsets, fill_topic, make_topic, read_topic

PIPELINE = str(Path(__file__).parent.parent / "spark" / "copying")
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Running(Protocol):
    """A `PipelineProcess` or a `PipelineThread`."""

    def is_running(self) -> bool: ...

    def output(self) -> str: ...


class Copying:
    """The pipeline's topics, folders and command line."""

    def __init__(self, bootstrap: str, folder: Path, rows: int) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.rows = 0
        self.prefix = f"copy-{uuid.uuid4().hex[:8]}"
        make_topic(bootstrap, f"{self.prefix}-in", partitions=2)
        make_topic(bootstrap, f"{self.prefix}-out", partitions=2)
        self.feed(rows)

    def feed(self, rows: int) -> None:
        numbers = [(b"%d" % i, b"%05d" % i) for i in range(self.rows, self.rows + rows)]
        fill_topic(self.bootstrap, f"{self.prefix}-in", numbers)
        self.rows += rows

    def runner(self, spark: SparkSession) -> Runner:
        """The same in this process."""
        settings = {"prefix": self.prefix, "tables": f"{self.folder}/tables"}
        pipeline = load_pipeline(Path(PIPELINE), overrides=settings)
        checkpoint = open_checkpoint(self.folder / "checkpoint", pipeline.name, self.bootstrap)
        return Runner(spark, pipeline, bootstrap_server=self.bootstrap, checkpoint=checkpoint)

    def start(self, *more: str) -> PipelineProcess:
        arguments = [PIPELINE, "--bootstrap-server", self.bootstrap]
        arguments += ["--set", f"prefix={self.prefix}", "--set", f"tables={self.folder}/tables"]
        arguments += ["--checkpoint", str(self.folder / "checkpoint"), "--spark-log", "ERROR"]
        flags = f"{FAST_START} -Djava.io.tmpdir={self.folder}"
        arguments += ["--conf", f"spark.driver.extraJavaOptions={flags}"]
        return PipelineProcess([*arguments, *more], self.folder / "pipeline.out")

    def written(self) -> int:
        return sum(end_offsets(self.bootstrap, f"{self.prefix}-out").values())

    def finish(self, *more: str) -> None:
        with self.start("--once", *more) as process:
            assert process.wait(300) == 0, process.output()

    def check(self, spark: SparkSession) -> None:
        expected = [b"%05d" % i for i in range(self.rows)]
        out = read_topic(self.bootstrap, f"{self.prefix}-out")
        assert sorted(record.value or b"" for record in out) == expected
        table = spark.read.parquet(str(self.folder / "tables" / "copy")).collect()
        assert sorted(row.number.encode() for row in table) == expected

    def wrote_more(self, running: Running, mark: int) -> Callable[[], bool]:
        """Whether more than `mark` records are there; the pipeline must be running still."""

        def look() -> bool:
            assert running.is_running(), running.output()
            return self.written() > mark

        return look
