"""What the last run did is known, even if it was killed."""

from dataclasses import replace
from pathlib import Path

import pytest

from floodmark.pipeline.authoring.leases import Owner
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.authoring.run_records import RunRecorder, read_run
from floodmark.pipeline.errors import PipelineError
from floodmark.testing.virtual_clock import VirtualClock

NOBODY = 2**22 + 1


def worked(rows: int) -> OutputProgress:
    return OutputProgress("out", True, batch=1, rows_in_so_far=rows, rows_out_so_far=rows // 2)


def test_a_running_pipeline_tells_its_speed_over_the_last_minute(tmp_path: Path) -> None:
    clock = VirtualClock()
    recorder = RunRecorder(tmp_path, clock)
    recorder.started(["out"])
    recorder.progressed([worked(0)])
    clock.advance(10_000)
    recorder.progressed([worked(1000)])
    found = read_run(tmp_path)
    assert found is not None
    assert found.now(clock.now_ms()).state == "running"
    assert found.outputs["out"].rows_in_per_second == 100.0
    assert found.outputs["out"].rows_out_per_second == 50.0


def test_a_stopped_and_a_failed_run_tell_when_and_why(tmp_path: Path) -> None:
    clock = VirtualClock()
    recorder = RunRecorder(tmp_path, clock)
    recorder.started(["out"])
    clock.advance(10_000)
    recorder.ended(None)
    stopped = read_run(tmp_path)
    assert stopped is not None
    assert (stopped.state, stopped.since_ms, stopped.error) == ("stopped", clock.now_ms(), None)
    recorder = RunRecorder(tmp_path, clock)
    recorder.ended("out has failed: no such topic")
    failed = read_run(tmp_path)
    assert failed is not None
    assert (failed.state, failed.error) == ("failed", "out has failed: no such topic")
    # It failed before its outputs were known.
    assert list(failed.outputs) == ["out"]


def test_a_killed_run_is_not_running(tmp_path: Path) -> None:
    clock = VirtualClock()
    recorder = RunRecorder(tmp_path, clock)
    recorder._owner = replace(Owner.this_process(), pid=NOBODY)
    recorder.started(["out"])
    found = read_run(tmp_path)
    assert found is not None
    now = found.now(clock.now_ms() + 1)
    assert now.state == "failed"
    assert "it was killed" in (now.error or "")


def test_a_run_on_another_machine_that_tells_nothing_any_more_is_not_running(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    recorder = RunRecorder(tmp_path, clock)
    recorder._owner = replace(Owner.this_process(), machine="elsewhere", pid=NOBODY)
    recorder.started(["out"])
    found = read_run(tmp_path)
    assert found is not None
    assert found.now(clock.now_ms() + 59_000).state == "running"
    assert found.now(clock.now_ms() + 61_000).state == "failed"


def test_a_state_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a-file").touch()
    RunRecorder(tmp_path / "a-file").started(["out"])
    assert "the state of the run could not be written" in caplog.text


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(PipelineError, match=r"run\.json is damaged"):
        read_run(tmp_path)
