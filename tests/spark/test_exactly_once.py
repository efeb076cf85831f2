"""Whatever is killed, every input row is in the output topic and in the table exactly once.

FLOODMARK_SPARK_KILLS says how often the driver is killed (5 in CI, 20 with make soak).
"""

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.broker import Broker, start_floodmark
from kit.pipeline_process import PipelineProcess, executors_of, spark_cluster
from kit.topics import end_offsets, fill_topic, make_topic, read_topic
from kit.waiting import wait_for

PIPELINE = str(Path(__file__).parent / "copying")
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
KILLS = int(os.environ.get("FLOODMARK_SPARK_KILLS", "5"))


class Copying:
    """The pipeline's topics, folders and command line."""

    def __init__(self, broker: Broker, folder: Path, rows: int) -> None:
        self.broker = broker
        self.folder = folder
        self.rows = rows
        self.prefix = f"copy-{uuid.uuid4().hex[:8]}"
        make_topic(broker.bootstrap, f"{self.prefix}-in", partitions=2)
        make_topic(broker.bootstrap, f"{self.prefix}-out", partitions=2)
        numbers = [(b"%d" % i, b"%05d" % i) for i in range(rows)]
        fill_topic(broker.bootstrap, f"{self.prefix}-in", numbers)

    def start(self, *more: str) -> PipelineProcess:
        arguments = [PIPELINE, "--bootstrap-server", self.broker.bootstrap]
        arguments += ["--set", f"prefix={self.prefix}", "--set", f"tables={self.folder}/tables"]
        arguments += ["--checkpoint", str(self.folder / "checkpoint"), "--spark-log", "ERROR"]
        flags = f"{FAST_START} -Djava.io.tmpdir={self.folder}"
        arguments += ["--conf", f"spark.driver.extraJavaOptions={flags}"]
        return PipelineProcess([*arguments, *more], self.folder / "pipeline.out")

    def written(self) -> int:
        return sum(end_offsets(self.broker.bootstrap, f"{self.prefix}-out").values())

    def finish(self, *more: str) -> None:
        with self.start("--once", *more) as process:
            assert process.wait(300) == 0, process.output()

    def check(self, spark: SparkSession) -> None:
        expected = [b"%05d" % i for i in range(self.rows)]
        out = read_topic(self.broker.bootstrap, f"{self.prefix}-out")
        assert sorted(record.value or b"" for record in out) == expected
        table = spark.read.parquet(str(self.folder / "tables" / "copy")).collect()
        assert sorted(row.number.encode() for row in table) == expected


@pytest.mark.timeout(900)
def test_a_killed_driver_and_a_killed_broker_repeat_and_lose_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = start_floodmark(tmp_path / "broker")
    try:
        copying = Copying(broker, tmp_path, rows=400 * (KILLS + 2))
        generator = random.Random(KILLS)
        for turn in range(KILLS):
            before = copying.written()
            with copying.start() as process:
                wait_for(_wrote_more(copying, process, before + generator.randrange(250)), 180)
                if turn == 1:
                    broker.process.kill()
                    broker = start_floodmark(tmp_path / "broker", port=broker.port)
                    copying.broker = broker
                process.kill()
        copying.finish()
        copying.check(spark)
    finally:
        broker.process.stop()


def _wrote_more(copying: Copying, process: PipelineProcess, mark: int) -> Callable[[], bool]:
    def look() -> bool:
        assert process.is_running(), process.output()
        return copying.written() > mark

    return look


@pytest.mark.timeout(600)
def test_the_same_file_runs_on_a_cluster_and_survives_the_loss_of_an_executor(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    copying = Copying(broker, tmp_path, rows=1500)
    with spark_cluster(tmp_path) as (address, workers):
        options = ["--master", address, "--conf", "spark.executor.memory=512m"]
        options += ["--conf", "spark.driver.host=127.0.0.1"]
        with copying.start("--once", *options) as process:
            wait_for(_wrote_more(copying, process, 100), 180)
            os.kill(executors_of(workers)[0], signal.SIGKILL)
            assert process.wait(300) == 0, process.output()
    copying.check(spark)


@pytest.mark.timeout(300)
def test_ctrl_c_ends_in_order_the_next_run_goes_on_and_a_reset_forgets(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    copying = Copying(broker, tmp_path, rows=600)
    with copying.start() as process:
        wait_for(_wrote_more(copying, process, 100), 180)
        process.interrupt()
        assert process.wait(120) == 0, process.output()
    copying.finish()
    copying.check(spark)

    shown = json.loads(floodmark("status", "--checkpoints", str(tmp_path), "-o", "json"))
    assert [(row["output"], row["lag"]) for row in shown] == [("copy", 0), ("table", 0)]
    checkpoint = str(tmp_path / "checkpoint")
    assert "will start over" in floodmark("reset", "copying", "--checkpoint", checkpoint, "--yes")
    assert not (tmp_path / "checkpoint").exists()


def floodmark(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("floodmark")), "pipeline", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout
