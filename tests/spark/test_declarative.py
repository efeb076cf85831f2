"""`format("floodmark")` inside Spark's own declarative pipelines, run by `spark-pipelines`."""

from pathlib import Path

import pyspark
import pytest

from kit.broker import Broker
from kit.spark_program import run_spark_program
from kit.tools import require_tool
from kit.topics import fill_topic, make_topic, read_topic

SPECIFICATION = """name: rivers
storage: {folder}/storage
libraries:
  - glob:
      include: definitions/**
configuration:
  rivers.bootstrap: {bootstrap}
  rivers.topic: {topic}
  spark.sql.shuffle.partitions: "1"
"""

DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()
topic = spark.conf.get("rivers.topic")
servers = {"kafka.bootstrap.servers": spark.conf.get("rivers.bootstrap")}


def levels(reader):
    options = {**servers, "subscribe": topic, "startingOffsets": "earliest"}
    return reader.format("floodmark").options(**options).load()


@dp.table
def archive():
    return levels(spark.readStream).select(F.col("value").cast("string").alias("level"))


@dp.materialized_view
def counts():
    return levels(spark.read).groupBy(F.col("value").cast("string").alias("level")).count()


dp.create_sink("copies", "floodmark", {**servers, "topic": topic + "-out"})


@dp.append_flow(target="copies")
def copied():
    return levels(spark.readStream).select("value")
"""


@pytest.mark.timeout(400)
def test_tables_views_and_sinks_of_a_declarative_pipeline_take_the_data_source(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    require_tool("java")
    make_topic(broker.bootstrap, topic, partitions=2)
    make_topic(broker.bootstrap, f"{topic}-out")
    fill_topic(broker.bootstrap, topic, [(None, b"%d" % (i % 3)) for i in range(30)])
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "levels.py").write_text(DEFINITIONS)
    specification = tmp_path / "spark-pipeline.yml"
    specification.write_text(
        SPECIFICATION.format(folder=tmp_path.as_uri(), bootstrap=broker.bootstrap, topic=topic)
    )
    command = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    run_spark_program([str(command), "run", "--spec", str(specification)], tmp_path)
    copies = [record.value for record in read_topic(broker.bootstrap, f"{topic}-out")]
    assert sorted(copies) == sorted(b"%d" % (i % 3) for i in range(30))
    for table in ("archive", "counts"):
        assert list((tmp_path / "spark-warehouse" / table).glob("*.parquet")), table
