"""What `floodmark pipeline run` prints where there is no terminal, and what it refuses at once."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from floodmark.cli.pipeline import NewLines, pipeline
from floodmark.pipeline.checkpoints import held, open_checkpoint, read_checkpoint
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.progress import OutputProgress
from floodmark.pipeline.session import spark_session


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


def test_a_master_that_spark_does_not_know_is_refused_before_it_starts() -> None:
    refused = pytest.raises(PipelineError, match="nonsense is no master that Spark knows: use")
    with refused, spark_session("p", master="nonsense"):
        pytest.fail("it has started")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "a-file"], "Error: a-file cannot be used\n  why: Not a directory\n"),
        (["run", "p", "--checkpoint", "a-file/x"], "Error: a-file/x cannot be used\n  why: "),
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
    monkeypatch.setattr("floodmark.pipeline.session.spark_session", no_spark)
    assert CliRunner().invoke(pipeline, ["new", "p"]).exit_code == 0
    running = open_checkpoint(tmp_path / "c", "p", "first:1")
    arguments = ["run", "p", "--checkpoint", str(running.folder), "--bootstrap-server", "second:1"]
    with held(running):
        outcome = CliRunner().invoke(pipeline, arguments)
    assert "pipeline p is running with the checkpoint" in outcome.output
    assert read_checkpoint(running.folder) == running
