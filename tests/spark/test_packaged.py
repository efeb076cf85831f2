"""The line that `floodmark pipeline package` prints, on workers that have no Floodmark."""

import os
import signal
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.broker import Broker
from kit.packaged import packaged_line
from kit.pipeline_process import PipelineProcess, executors_of, spark_cluster
from kit.topics import end_offsets, fill_topic, make_topic, read_topic
from kit.waiting import wait_for

COPYING = Path(__file__).parent / "copying"
HOUSE = Path(__file__).parents[2]
ROWS = 600


@pytest.mark.timeout(600)
def test_a_packaged_pipeline_needs_no_floodmark_on_workers_and_survives_the_loss_of_an_executor(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    prefix = f"packaged-{uuid.uuid4().hex[:8]}"
    for name in ("in", "out"):
        make_topic(broker.bootstrap, f"{prefix}-{name}", partitions=2)
    expected = [b"%05d" % i for i in range(ROWS)]
    fill_topic(broker.bootstrap, f"{prefix}-in", [(value, value) for value in expected])
    options = ["--once", "--bootstrap-server", broker.bootstrap]
    options += ["--set", f"prefix={prefix}", "--set", f"tables={tmp_path}/tables"]
    with spark_cluster(tmp_path, hidden=[Path(sys.prefix), HOUSE / "src"]) as (master, workers):
        line = packaged_line(COPYING, tmp_path / "dist", master, f"file://{tmp_path}")
        with PipelineProcess(options, tmp_path / "out", line, tmp_path / "dist") as process:

            def has_begun() -> bool:
                assert process.is_running(), process.output()
                return sum(end_offsets(broker.bootstrap, f"{prefix}-out").values()) > 100

            wait_for(has_begun, 300)
            os.kill(executors_of(workers)[0], signal.SIGKILL)
            assert process.wait(300) == 0, process.output()
    records = read_topic(broker.bootstrap, f"{prefix}-out")
    assert sorted(record.value or b"" for record in records) == expected
    table = spark.read.parquet(f"{tmp_path}/tables/copy").collect()
    assert sorted(row.number.encode() for row in table) == expected
