"""One output that starts again from a time or offset, and one that is dropped."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from floodmark.cli.commands.group import group
from floodmark.cli.commands.pipeline_replay import drop, replay
from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.errors import PipelineError
from kit.broker import Broker
from kit.topics import fill_topic, make_topic, read_topic

FILE = """from floodmark.pipeline import Pipeline
pipeline = Pipeline("again")
pipeline.source("rows", topic="{topic}", schema="n INT")

@pipeline.sink(topic="{topic}-copy")
def copy(rows):
    return rows

@pipeline.sink(topic="{topic}-counts", key="n", output_mode="update")
def counts(rows):
    return rows.groupBy("n").count()

@pipeline.table(r"{folder}/table")
def table(rows):
    return rows
"""


def test_an_output_is_replayed_alone_and_stays_exactly_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, topic)
    for n in (1, 2, 3):
        value = json.dumps({"n": n}).encode()
        fill_topic(broker.bootstrap, topic, [(None, value)], timestamp_ms=n * 1_000)
    path = tmp_path / "pipeline.py"
    path.write_text(FILE.format(topic=topic, folder=tmp_path))
    folder = tmp_path / "checkpoints" / "again"

    def run() -> None:
        pipeline = load_pipeline(path)
        checkpoint = open_checkpoint(folder, pipeline.name, broker.bootstrap)
        Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(
            once=True
        )

    def cli(command: object, *arguments: str) -> str:
        options = ["--checkpoints", str(tmp_path / "checkpoints")]
        outcome = CliRunner().invoke(command, [*arguments, *options])  # type: ignore[arg-type]
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    def values(name: str) -> list[dict[str, int]]:
        return [json.loads(r.value or b"") for r in read_topic(broker.bootstrap, f"{topic}-{name}")]

    run()
    refused = CliRunner().invoke(
        group,
        [
            *("reset", "again.copy", "--all-topics", "--to-earliest", "--execute"),
            *("--bootstrap-server", broker.bootstrap),
        ],
    )
    assert refused.exit_code == 1
    assert "`floodmark pipeline replay copy --from earliest`" in refused.output
    dry = cli(replay, "copy", "--from", "1", "--dry-run")
    assert "copy: 2 offsets will be read again, 0 skipped" in dry
    cli(replay, "copy", "--from", "1970-01-01T00:00:02", "--yes")
    cli(replay, "counts", "--from", "earliest", "--yes")
    run()
    assert [row["n"] for row in values("copy")] == [1, 2, 3, 2, 3]
    # With empty state: the same counts again, not higher ones.
    assert [row["count"] for row in values("counts")] == [1] * 6
    assert "move" in cli(replay, "table", "--from", "latest", "--yes")
    with pytest.raises(PipelineError, match=r"the table .* holds batches up to 0"):
        run()
    cli(drop, "table", "--yes")
    (tmp_path / "table").rename(tmp_path / "earlier")
    run()
    assert spark.read.parquet(str(tmp_path / "table")).count() == 3
    assert len(values("copy")) == 5, "a replay happens once"
    checkpoint = open_checkpoint(folder, "again", broker.bootstrap)
    assert checkpoint.outputs() == ["copy", "counts", "table"]
