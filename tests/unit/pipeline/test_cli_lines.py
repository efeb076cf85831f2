"""What `floodmark pipeline run` prints where there is no terminal, and what it refuses at once."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from floodmark.cli.commands.pipeline import pipeline
from floodmark.cli.pipeline_kit import NewLines
from floodmark.pipeline.authoring.checkpoints import held, open_checkpoint, read_checkpoint
from floodmark.pipeline.authoring.progress import OBSERVED, Follower, OutputProgress
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.session import spark_session


def test_a_batch_is_printed_though_an_idle_report_had_its_number() -> None:
    lines: list[str] = []
    show = NewLines(lines.append)
    idle = OutputProgress("out", True, batch=1)
    worked = OutputProgress("out", True, batch=1, rows_in=5)
    for progress in (OutputProgress("out", True), idle, idle, worked, worked):
        show([progress])
    assert [line.partition(" (")[0] for line in lines] == [
        "out: batch 1, 0 rows in",
        "out: batch 1, 5 rows in",
    ]


def report(batch: int, rows: int, late: int = 0, second: int = 0) -> dict[str, object]:
    """One of Spark's, in what is read of it."""
    return {
        "batchId": batch,
        "timestamp": f"2026-01-01T00:00:{second or batch:02}.000Z",
        "numInputRows": rows,
        "durationMs": {},
        "stateOperators": [{"numRowsTotal": 0, "numRowsDroppedByWatermark": late}],
        "sources": [],
    }


def test_every_batch_is_printed_once_however_many_are_between_two_looks() -> None:
    lines: list[str] = []
    show, follower = NewLines(lines.append), Follower("out")
    reports: list[dict[str, object]] = []
    sums = []
    for more in (
        [],
        [report(0, rows=1)],
        [report(1, rows=2, late=1), report(2, rows=3, late=2)],
        # An idle one has the number of the batch that follows it.
        [report(3, rows=0, second=30)],
        [report(3, rows=4, late=1, second=31), report(4, rows=0, second=32)],
    ):
        # Spark keeps the last reports only.
        reports = [*reports, *more][-4:]
        found = follower.follow(reports, is_active=True)
        show(found)
        sums.append(found[-1].late_rows_so_far)
    assert [line.partition(" (")[0] for line in lines] == [
        f"out: batch {batch}, {batch + 1} rows in" for batch in range(4)
    ]
    assert [line.count("dropped as late") for line in lines] == [0, 1, 1, 1]
    assert sums == [0, 0, 3, 3, 4]


def test_a_batch_without_input_is_printed_if_it_wrote_rows() -> None:
    lines: list[str] = []
    show, follower = NewLines(lines.append), Follower("out")
    emitted = report(1, rows=0) | {"observedMetrics": {OBSERVED: {"rows": 7}}}
    for reports in ([report(0, rows=1)], [report(0, rows=1), emitted]):
        show(follower.follow(reports, is_active=True))
    assert [line.partition(" (")[0] for line in lines] == [
        "out: batch 0, 1 rows in",
        "out: batch 1, 0 rows in",
    ]
    assert ", 7 out" in lines[1]


@pytest.mark.parametrize("master", ["nonsense", "localhost:7077", "local[", "yarn-client"])
def test_a_master_that_spark_does_not_know_is_refused_before_it_starts(master: str) -> None:
    message = re.escape(f"{master} is not a valid Spark master: use")
    refused = pytest.raises(PipelineError, match=message)
    with refused, spark_session("p", master=master):
        pytest.fail("it has started")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "a-file"], "Error: a-file could not be used\n  why: Not a directory\n"),
        (["run", "p", "--checkpoint", "a-file/x"], "Error: a-file/x could not be used\n  why: "),
        (["run", "p", "--spark-log", "LOUD"], "'LOUD' is not one of"),
    ],
)
def test_a_wrong_argument_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("a-file").touch()
    assert CliRunner().invoke(pipeline, ["new", "p"]).exit_code == 0
    outcome = CliRunner().invoke(pipeline, arguments)
    assert outcome.exit_code in (1, 2)
    assert message in outcome.output


def no_spark(*_: object, **__: object) -> object:
    raise AssertionError("Spark was started")


def test_a_second_run_is_refused_at_once_and_leaves_the_brokers_address_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("floodmark.pipeline.spark.session.spark_session", no_spark)
    assert CliRunner().invoke(pipeline, ["new", "p"]).exit_code == 0
    running = open_checkpoint(tmp_path / "c", "p", "first:1")
    arguments = ["run", "p", "--checkpoint", str(running.folder), "--bootstrap-server", "second:1"]
    with held(running):
        outcome = CliRunner().invoke(pipeline, arguments)
    assert "pipeline p is already running with the checkpoint" in outcome.output
    assert read_checkpoint(running.folder) == running
