"""Data from several topics, files and databases, which goes out by the author's own code."""

import json
import sqlite3
import uuid
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.authoring.runner import Runner
from kit.broker import Broker
from kit.checkpoints import forget_last_commit
from kit.pipeline_process import PipelineProcess
from kit.spark_jars import delta_jars
from kit.topics import fill_topic, make_topic

FILE = """import json
from pathlib import Path
from pyspark.sql.functions import udf
from floodmark.pipeline import Pipeline

@udf("long")
def twice(number):
    return 2 * number

pipeline = Pipeline("mixed")
FOLDER = Path(r"{folder}")
pipeline.source("two", topic=["{topic}-a", "{topic}-b"], schema="id STRING, n INT",
                headers=True, metadata=True)
pipeline.source("matching", pattern="{topic}-[ab]", schema="id STRING")
pipeline.source("files", format="json", schema="id STRING, n INT",
                options={{"path": str(FOLDER / "in")}})
pipeline.lookup("names", format="jdbc",
                options={{"url": f"jdbc:sqlite:{{FOLDER / 'names.db'}}", "dbtable": "names"}})

@pipeline.temporary_view
def named(two, names):
    doubled = two.withColumn("twice", twice("n"))
    return doubled.join(names, "id", "left")

@pipeline.batch_sink()
def written(named, batch_id, query_id):
    file = FOLDER / "out" / f"{{query_id}}-{{batch_id}}.json"
    if file.exists():
        return
    chosen = named.select("id", "twice", "name", "_topic", "_headers")
    rows = [row.asDict() for row in chosen.collect()]
    file.write_text(json.dumps(rows, default=bytes.decode))

@pipeline.batch_sink(output_mode="update")
def counted(totals, batch_id):
    marker = FOLDER / f"counted-{{batch_id}}"
    if not marker.exists():
        marker.write_text(json.dumps([list(row) for row in totals.collect()]))

@pipeline.temporary_view
def totals(matching):
    return matching.groupBy("id").count()

@pipeline.table(name="{table}", partition_cols=["id"])
def from_files(files):
    return files
"""


def test_sources_of_all_kinds_and_functions_of_batches(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    table = f"t_{uuid.uuid4().hex[:8]}"
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id":"f","n":7}\n')
    connection = sqlite3.connect(tmp_path / "names.db")
    connection.execute("CREATE TABLE names (id TEXT, name TEXT)")
    connection.execute("INSERT INTO names VALUES ('a', 'Ann')")
    connection.commit()
    connection.close()
    for name in ("a", "b"):
        make_topic(broker.bootstrap, f"{topic}-{name}")
        value = json.dumps({"id": name, "n": 1}).encode()
        fill_topic(broker.bootstrap, f"{topic}-{name}", [(None, value)], headers=[("h", b"1")])
    path = tmp_path / "pipeline.py"
    path.write_text(FILE.format(folder=tmp_path, topic=topic, table=table))

    def run() -> None:
        pipeline = load_pipeline(path)
        checkpoint = open_checkpoint(tmp_path / "checkpoint", pipeline.name, broker.bootstrap)
        Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(
            once=True
        )

    run()
    (file,) = (tmp_path / "out").iterdir()
    rows = sorted(json.loads(file.read_text()), key=lambda row: str(row["id"]))
    assert [(r["id"], r["twice"], r["name"]) for r in rows] == [("a", 2, "Ann"), ("b", 2, None)]
    assert [r["_topic"] for r in rows] == [f"{topic}-a", f"{topic}-b"]
    assert rows[0]["_headers"] == [["h", "1"]]
    assert spark.table(table).count() == 1
    # As if the driver was killed before Spark knew of the batch: it comes again, and the functions
    # return without reading it.
    for output in ("written", "counted"):
        forget_last_commit(tmp_path / "checkpoint" / output)
    fill_topic(broker.bootstrap, f"{topic}-a", [(None, b'{"id":"a","n":5}')])
    (tmp_path / "in" / "2.json").write_text('{"id":"g","n":8}\n')
    run()
    assert len(list((tmp_path / "out").iterdir())) == 2
    # The state of the repeated batch counts, though nobody read its rows.
    assert json.loads((tmp_path / "counted-1").read_text()) == [["a", 2]]
    assert sorted(row.id for row in spark.table(table).collect()) == ["f", "g"]


WINDOWS = """from pyspark.sql import functions as F
from floodmark.pipeline import Pipeline
pipeline = Pipeline("windows")
pipeline.source("rows", topic="{topic}", schema="at TIMESTAMP", watermark=("at", "1 second"))

@pipeline.sink(format="noop")
def windows(rows):
    return rows.groupBy(F.window("at", "1 minute")).count()
"""


def test_progress_shows_the_rows_of_a_batch_without_input(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    times = (b"2026-01-01T12:00:00Z", b"2026-01-01T12:10:00Z")
    fill_topic(broker.bootstrap, topic, [(None, b'{"at":"%s"}' % at) for at in times])
    path = tmp_path / "pipeline.py"
    path.write_text(WINDOWS.format(topic=topic))
    pipeline = load_pipeline(path)
    checkpoint = open_checkpoint(tmp_path / "checkpoint", pipeline.name, broker.bootstrap)
    shown: list[OutputProgress] = []
    runner = Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)
    runner.run(once=True, show=shown.extend)
    batches = {(item.batch, item.rows_in, item.rows_out) for item in shown}
    assert (1, 0, 1) in batches, "the watermark completes the first window"


DELTA = """import pandas as pd
from pyspark.sql.functions import pandas_udf, udf

@udf("long")
def twice(number):
    return 2 * number

@pandas_udf("long")
def thrice(numbers: pd.Series) -> pd.Series:
    return 3 * numbers

from floodmark.pipeline import Pipeline
pipeline = Pipeline("lake")
pipeline.source("rows", topic="{topic}", schema="n INT")

@pipeline.table("lake", format="delta")
def lake(rows):
    return rows.select(twice("n").alias("two"), thrice("n").alias("three"))
"""


@pytest.mark.timeout(400)
def test_a_file_of_typed_functions_runs_from_the_command_line_into_a_delta_table(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b'{"n":5}')])
    (tmp_path / "pipeline.py").write_text(DELTA.format(topic=topic))
    conf = {
        "spark.jars": delta_jars(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    arguments = ["--once", "--bootstrap-server", broker.bootstrap]
    arguments += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    with PipelineProcess(arguments, tmp_path / "log") as process:
        assert process.wait(300) == 0, process.output()
    added = [
        json.loads(line)["add"]["path"]
        for log in sorted((tmp_path / "lake" / "_delta_log").glob("*.json"))
        for line in log.read_text().splitlines()
        if "add" in json.loads(line)
    ]
    rows = [
        row
        for path in added
        for row in pyarrow.parquet.read_table(tmp_path / "lake" / path).to_pylist()
    ]
    assert rows == [{"two": 10, "three": 15}]
