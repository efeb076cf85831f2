"""Whatever is killed, every input row is in the output topic and in the table exactly once.

FLOODMARK_SPARK_KILLS says how often the driver is killed (twice in CI, 20 times with make soak).
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.broker import Broker, start_floodmark
from kit.copying import Copying
from kit.pipeline_process import executors_of, spark_cluster
from kit.waiting import wait_for

KILLS = int(os.environ.get("FLOODMARK_SPARK_KILLS", "2"))


@pytest.mark.timeout(900)
def test_killed_drivers_a_killed_broker_and_ctrl_c_repeat_and_lose_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = start_floodmark(tmp_path / "broker")
    try:
        copying = Copying(broker.bootstrap, tmp_path, rows=400 * (KILLS + 2))
        generator = random.Random(KILLS)
        for turn in range(KILLS):
            before = copying.written()
            with copying.start() as process:
                wait_for(copying.wrote_more(process, before + generator.randrange(250)), 180)
                if turn == 1:
                    broker.process.kill()
                    broker = start_floodmark(tmp_path / "broker", port=broker.port)
                process.kill()
        before = copying.written()
        with copying.start() as process:
            wait_for(copying.wrote_more(process, before + 100), 180)
            process.interrupt()
            assert process.wait(120) == 0, process.output()
        copying.finish()
        copying.check(spark)

        shown = json.loads(floodmark("status", "--checkpoints", str(tmp_path), "-o", "json"))
        assert [(row["output"], row["lag"]) for row in shown] == [("copy", 0), ("table", 0)]
        checkpoint = str(tmp_path / "checkpoint")
        said = floodmark("reset", "copying", "--checkpoint", checkpoint, "--yes")
        assert "will start over" in said
        assert not (tmp_path / "checkpoint").exists()
    finally:
        broker.process.stop()


@pytest.mark.timeout(600)
def test_the_same_file_runs_on_a_cluster_and_survives_the_loss_of_an_executor(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    copying = Copying(broker.bootstrap, tmp_path, rows=600)
    with spark_cluster(tmp_path, workers=1) as (address, workers):
        options = ["--master", address, "--conf", "spark.executor.memory=512m"]
        options += ["--conf", "spark.driver.host=127.0.0.1"]
        with copying.start("--once", *options) as process:
            wait_for(copying.wrote_more(process, 100), 180)
            os.kill(executors_of(workers)[0], signal.SIGKILL)
            assert process.wait(300) == 0, process.output()
    copying.check(spark)


def floodmark(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("floodmark")), "pipeline", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout
