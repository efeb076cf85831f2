"""Exactly once from a client of Spark Connect, whose server runs the batches."""

import sys
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.spark_program import run_spark_program
from kit.tools import require_tool
from kit.topics import fill_topic, make_topic, read_topic

QUERY = """
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from floodmark.pipeline.datasource.batch_writers import exactly_once

servers, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()


def run(**how):
    reader = spark.readStream.format("floodmark").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    options = {"kafka.bootstrap.servers": servers, "topic": topic + "-out"}
    write = exactly_once(query=topic, options=options, **how)
    writer = frame.select("key", "value").writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", checkpoint).foreachBatch(write)
    query = writer.start()
    query.awaitTermination()


run(tasks=3)
# The batch comes again, as after a crash.
shutil.rmtree(Path(checkpoint) / "commits")
run(tasks=3)
# How a batch is split by itself is unknown here.
shutil.rmtree(Path(checkpoint) / "commits")
try:
    run()
except Exception as error:
    assert "tasks=4" in str(error), error
else:
    raise AssertionError("a batch without a number of tasks was not refused")
print("done")
"""


@pytest.mark.timeout(400)
def test_a_repeated_batch_is_written_once_on_spark_connect(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    require_tool("java")
    make_topic(broker.bootstrap, topic, partitions=2)
    make_topic(broker.bootstrap, f"{topic}-out")
    fill_topic(broker.bootstrap, topic, [(b"%d" % (i % 7), b"%d" % i) for i in range(100)])
    script = tmp_path / "query.py"
    script.write_text(QUERY)
    printed = run_spark_program(
        [sys.executable, str(script), broker.bootstrap, topic, str(tmp_path / "checkpoint")],
        tmp_path,
    )
    assert printed.rstrip().endswith("done")
    records = read_topic(broker.bootstrap, f"{topic}-out")
    assert sorted(int(record.value or b"") for record in records) == list(range(100))
    # The rows of a key are still in their order.
    for key in range(7):
        own = [int(r.value or b"") for r in records if r.key == b"%d" % key]
        assert own == sorted(own)
