"""What goes wrong says what, why and what next; what can be survived is survived."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.errors import PipelineError
from kit.broker import Broker
from kit.topics import fill_topic, make_topic

HEAD = """from pyspark.sql import functions as F
from floodmark.pipeline import Pipeline
pipeline = Pipeline("bad")
pipeline.source("rows", topic="{topic}", schema="id STRING, amount DOUBLE"{more})
"""


def write(folder: Path, topic: str, text: str, more: str = "") -> Path:
    path = folder / "pipeline.py"
    path.write_text(HEAD.replace("{topic}", topic).replace("{more}", more) + text)
    return path


def runner(spark: SparkSession, broker: Broker, path: Path) -> Runner:
    pipeline = load_pipeline(path)
    checkpoint = open_checkpoint(path.parent / "checkpoint", pipeline.name, broker.bootstrap)
    return Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return rows.select('price')", r"pipeline.py:7: .*`price` cannot be resolved"),
        ("    return rows.groupBy('id').count()", r"(?s)pipeline.py:5: .*[Aa]ppend"),
        ("    return 5", r"pipeline.py:5: f returned int, not a DataFrame"),
        ("    return rowz", r"pipeline.py:7: f failed: NameError: name 'rowz' is not defined"),
        (
            "    two = rows.select('id')\n    return rows.join(two, rows.id == two.id)",
            r"pipeline.py:5: .*`id` is ambiguous",
        ),
    ],
)
def test_check_tells_the_line_of_a_mistake(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, body: str, message: str
) -> None:
    make_topic(broker.bootstrap, topic)
    path = write(tmp_path, topic, f"@pipeline.sink(topic='out')\ndef f(rows):\n{body}\n")
    with pytest.raises(PipelineError, match=message):
        runner(spark, broker, path).check()


def test_check_tells_of_unknown_topics_parameters_and_schemas(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    good = "@pipeline.sink(topic='out')\ndef f(rows):\n    return rows\n"
    with pytest.raises(PipelineError, match=rf"pipeline.py:4: topic {topic} of source rows does"):
        runner(spark, broker, write(tmp_path, topic, good)).check()
    unknown = good.replace("def f(rows)", "def f(orders)")
    with pytest.raises(PipelineError, match=r"pipeline.py:5: f asks for orders.*known: rows"):
        runner(spark, broker, write(tmp_path, topic, unknown)).check()
    path = write(tmp_path, topic, good)
    path.write_text(path.read_text().replace("amount DOUBLE", "amount DUBLE"))
    with pytest.raises(PipelineError, match=r"pipeline.py:4: the schema of rows could not be read"):
        runner(spark, broker, path).check()


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        (", starting_offsets='soon'", "topic='out'", r"pipeline.py:4: option startingOffsets is"),
        (", options={'minPartitions': 'x'}", "topic='out'", r"pipeline.py:4: option minPartitions"),
        ("", "topic='out', trigger='1 secnd'", r"pipeline.py:5: .*Invalid unit secnd"),
    ],
)
def test_check_reads_options_and_triggers(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    source: str,
    output: str,
    message: str,
) -> None:
    make_topic(broker.bootstrap, topic)
    text = f"@pipeline.sink({output})\ndef f(rows):\n    return rows\n"
    with pytest.raises(PipelineError, match=message):
        runner(spark, broker, write(tmp_path, topic, text, source)).check()


def test_what_a_function_of_the_author_raises_in_a_worker_is_told_with_its_line(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}')])
    text = "@F.udf('double')\ndef ratio(amount):\n    return amount / 0\n"
    text += f"@pipeline.sink(topic='{topic}-out')\ndef f(rows):\n    "
    text += "return rows.select(ratio('amount').alias('ratio'))\n"
    message = r"^f has failed: ZeroDivisionError: .* \(pipeline.py:7, in ratio\)$"
    with pytest.raises(PipelineError, match=message):
        runner(spark, broker, write(tmp_path, topic, text)).run(once=True)


def test_a_format_that_spark_does_not_know_is_told_with_its_line(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    text = "@pipeline.sink(format='consol')\ndef f(rows):\n    return rows\n"
    with pytest.raises(PipelineError, match=r"pipeline.py:5: .*find the data source: consol"):
        runner(spark, broker, write(tmp_path, topic, text)).run(once=True)


def test_a_checkpoint_that_another_shape_of_the_pipeline_made_is_told(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}')])
    text = f"@pipeline.sink(topic='{topic}-out', output_mode='update')\ndef f(rows):\n    "
    first = write(tmp_path, topic, text + "return rows.groupBy('id').count()\n")
    runner(spark, broker, first).run(once=True)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}')])
    other = write(tmp_path, topic, text + "return rows.groupBy('amount').count()\n")
    with pytest.raises(PipelineError, match="undo the change, or start over with `floodmark pipe"):
        runner(spark, broker, other).run(once=True)


TABLE = "@pipeline.table(r'{folder}/table')\ndef f(rows):\n    return rows\n"


def test_a_table_with_batches_that_the_checkpoint_does_not_know_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}')])
    path = write(tmp_path, topic, TABLE.format(folder=tmp_path))
    runner(spark, broker, path).run(once=True)
    # With a new checkpoint, Spark would count from batch 0 again and take it for written.
    shutil.rmtree(tmp_path / "checkpoint")
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"b","amount":2}')])
    with pytest.raises(PipelineError, match=r"pipeline.py:5: the table .* holds batches up to 0"):
        runner(spark, broker, path).run(once=True)
    (tmp_path / "table").rename(tmp_path / "earlier")
    runner(spark, broker, path).run(once=True)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.id for row in rows) == ["a", "b"]


@pytest.mark.parametrize(
    ("address", "why"),
    [("gs://bucket/x", "FileSystem not found"), ("hdfs://no-such-host.invalid/x", "no-such")],
)
def test_a_table_that_spark_cannot_reach_is_told_with_its_line(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, address: str, why: str
) -> None:
    make_topic(broker.bootstrap, topic)
    path = write(tmp_path, topic, TABLE.replace("{folder}/table", address))
    message = rf"pipeline.py:5: Spark cannot reach the table {address}: .*{why}"
    with pytest.raises(PipelineError, match=message):
        runner(spark, broker, path).check()


def test_two_tables_in_one_folder_are_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    one = TABLE.format(folder=tmp_path)
    path = write(tmp_path, topic, one + one.replace("def f", "def g"))
    with pytest.raises(PipelineError, match=r"pipeline.py:8: g and f \(pipeline.py:5\) write to"):
        runner(spark, broker, path).check()


def test_a_poisonous_record_without_dead_letters_stops_the_pipeline_and_is_named(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}'), (None, b"poison")])
    text = f"@pipeline.sink(topic='{topic}-out')\ndef f(rows):\n    return rows\n"
    with pytest.raises(PipelineError, match=rf"record at offset 1 of {topic}-0 does not parse"):
        runner(spark, broker, write(tmp_path, topic, text)).run(once=True)
