"""A partition larger than memory can be written and read: workers hold pieces of it, never all.

FLOODMARK_SPARK_PARTITION_MB is the size of the partition (300 in CI, 10000 with make soak).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kit.broker import Broker
from kit.topics import make_topic

PARTITION_MB = int(os.environ.get("FLOODMARK_SPARK_PARTITION_MB", "300"))
ROW_BYTES = 1000
# What a worker may take beyond its modules, which are about half of this.
WORKER_MB = 256


def write(spark: SparkSession, broker: Broker, topic: str, megabytes: int) -> int:
    """Rows of one task into the one partition; gives their number."""
    count = megabytes * 1_000_000 // ROW_BYTES
    rows = spark.range(0, count, numPartitions=1).select(
        F.rpad(F.col("id").cast("string"), ROW_BYTES, "water ").alias("value")
    )
    writer = rows.write.format("floodmark").option("topic", topic).mode("append")
    writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
    return count


def read(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.read.format("floodmark").option("subscribe", topic)
    return reader.option("kafka.bootstrap.servers", broker.bootstrap).load()


def worker_peak_mb(spark: SparkSession) -> float:
    """The largest resident size that any process below Spark's JVM ever had."""
    context = spark.sparkContext
    assert context._gateway is not None
    workers = list(_descendants(context._gateway.proc.pid))
    assert workers
    return max(_status(pid, "VmHWM") / 1024 for pid in workers)


def _descendants(root: int) -> Iterator[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    parents = {pid: _status(pid, "PPid") for pid in pids}
    for pid, parent in parents.items():
        above = parent
        while above and above != root:
            above = parents.get(above, 0)
        if above:
            yield pid


def _status(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it has ended meanwhile
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)


@pytest.mark.timeout(3600)
def test_a_worker_holds_a_piece_of_a_partition_and_never_the_whole(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    make_topic(broker.bootstrap, topic)
    small = write(spark, broker, topic, 8)
    assert read(spark, broker, topic).count() == small
    before_mb = worker_peak_mb(spark)
    large = write(spark, broker, topic, PARTITION_MB)
    value_bytes = F.sum(F.length("value"))
    total = read(spark, broker, topic).agg(value_bytes).collect()[0][0]
    assert total == (small + large) * ROW_BYTES
    peak_mb = worker_peak_mb(spark)
    print(f"peak of a worker: {before_mb:.0f} MiB after 8 MB, {peak_mb:.0f} MiB after the whole")
    assert peak_mb < WORKER_MB
