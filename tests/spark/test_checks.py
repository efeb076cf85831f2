"""`check` finds what Spark would tell only after the start, each with its line."""

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
pipeline = Pipeline("checked")
pipeline.source("rows", topic="{topic}", schema="id STRING, amount DOUBLE"{more})
"""


def runner(
    spark: SparkSession, broker: Broker, folder: Path, topic: str, text: str, more: str = ""
) -> Runner:
    path = folder / "pipeline.py"
    path.write_text(HEAD.format(topic=topic, more=more) + text)
    pipeline = load_pipeline(path)
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    return Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)


def sink(arguments: str, body: str = "rows") -> str:
    return f"@pipeline.sink({arguments})\ndef f(rows):\n    return {body}\n"


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = "checked-rows"
    make_topic(broker.bootstrap, name)
    return name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (sink("format='consol'"), "Failed to find the data source: consol"),
        (sink("format='rate'"), "Spark cannot write rate as a stream"),
        (sink("format='jdbc'"), "has no option url"),
        (
            sink("format='jdbc', options={'url': 'jdbc:nix:x', 'dbtable': 't'}"),
            "the database cannot be used: No suitable driver",
        ),
        (
            sink("format='jdbc', key='id', options={'url': 'jdbc:derby:x', 'dbtable': 't'}"),
            "supported for PostgreSQL and SQLite, not for jdbc:derby",
        ),
        (
            sink("format='jdbc', key='no', options={'url': 'jdbc:sqlite:x', 'dbtable': 't'}"),
            "key of f names no, which is not a column; the columns are id, amount",
        ),
        (
            sink("format='csv', options={'path': 'x'}", "rows.select(F.struct('id').alias('s'))"),
            "CSV datasource doesn't support the column `s`",
        ),
        (sink("format='csv'"), "writes csv files but names no folder"),
        (
            sink("format='parquet', output_mode='update', options={'path': 'x'}"),
            "files can only be appended",
        ),
        (
            sink("topic='out'").replace("sink(topic='out'", "table(partition_cols=['no']"),
            "partition_cols of f names no, which is not a column",
        ),
        (sink("topic='checked-rows'"), "f writes to checked-rows, which it also reads"),
    ],
)
def test_check_finds_targets_that_cannot_be_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(PipelineError, match=rf"pipeline.py:5: .*{message}"):
        runner(spark, broker, tmp_path, topic, text).check()


def test_check_finds_dead_letters_that_would_come_back_through_a_pattern(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "pipeline.py"
    source = 'pattern="checked-.*", schema="id STRING", dead_letters="checked-dead"'
    path.write_text(
        'from floodmark.pipeline import Pipeline\npipeline = Pipeline("p")\n'
        f'pipeline.source("rows", {source})\n' + sink("format='console'")
    )
    checked = Runner(spark, load_pipeline(path), bootstrap_server=broker.bootstrap)
    with pytest.raises(PipelineError, match=r"pipeline.py:3: .*writes to checked-dead, which it"):
        checked.check()


def test_formats_that_can_be_written_pass(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    text = "".join(
        f"@pipeline.sink(format='{name}')\ndef {name}(rows):\n    return rows\n"
        for name in ("console", "noop")
    )
    text += "@pipeline.table(r'{}', partition_cols=['ID'])\ndef t(rows):\n    return rows\n".format(
        tmp_path / "t"
    )
    built = runner(spark, broker, tmp_path, topic, text).check()
    assert [item.output.name for item in built] == ["console", "noop", "t"]


def test_check_finds_a_checkpoint_of_another_shape(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"a","amount":1}')])
    to_noop = "format='noop', output_mode='update'"
    counts = sink(to_noop, "rows.groupBy('id').count()")
    runner(spark, broker, tmp_path, topic, counts).run(once=True)
    runner(spark, broker, tmp_path, topic, counts).check()
    assert "has no effect" not in caplog.text
    for other, why in (
        ("rows.groupBy('amount').count()", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
        ("rows", "STATEFUL_OPERATOR_NOT_MATCH"),
        ("rows.union(rows).groupBy('id').count()", "it reads 2 streams, but 1 when it last ran"),
    ):
        message = rf"(?s)pipeline.py:5: f cannot continue from its checkpoint: .*{why}"
        with pytest.raises(PipelineError, match=message):
            runner(spark, broker, tmp_path, topic, sink(to_noop, other)).check()
    latest = ", starting_offsets='latest'"
    runner(spark, broker, tmp_path, topic, counts, latest).check()
    assert "the new start of source rows has no effect: `floodmark pipeline replay f" in caplog.text
