"""`floodmark up`: which properties reach the broker, and what is said when it is ready."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from floodmark.cli.main import run
from floodmark.config.errors import ConfigError
from floodmark.storage.errors import LogDirLocked


class Started:
    """Takes the place of the broker and keeps what it was given."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        self.error: Exception | None = None

    def __call__(self, properties: dict[str, str], **options: Any) -> int:
        if self.error is not None:
            raise self.error
        self.properties, self.options = properties, options
        options["ready"](
            SimpleNamespace(address="127.0.0.1:9999", config=SimpleNamespace(log_dirs=["d"]))
        )
        return 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    fake = Started()
    monkeypatch.setattr("floodmark.broker.main.run", fake)
    for name in ("FLOODMARK_TEST_TARGET", "FLOODMARK_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_it_listens_on_the_loopback_by_default(started: Started) -> None:
    assert run(["up"]) == 0
    assert started.properties == {"listeners": "PLAINTEXT://127.0.0.1:9092"}


def test_options_become_properties(started: Started) -> None:
    arguments = ["--host", "::1", "--port", "0", "--data-dir", "x", "--metrics-port", "9100"]
    arguments += ["--metrics-host", "127.0.0.2"]
    assert run(["up", *arguments, "--log-format", "json", "--log-level", "debug"]) == 0
    assert started.properties == {"listeners": "PLAINTEXT://[::1]:0", "log.dirs": "x"}
    given = {name: value for name, value in started.options.items() if name != "ready"}
    assert given == {
        "metrics_port": 9100,
        "metrics_host": "127.0.0.2",
        "log_format": "json",
        "log_level": "debug",
    }


def test_later_sources_win(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:1\na=file\nb=file\nc=file\n")
    monkeypatch.setenv("FLOODMARK_B", "environment")
    monkeypatch.setenv("FLOODMARK_C", "environment")
    assert run(["up", "--config", str(file), "--set", "c=set"]) == 0
    assert started.properties == {
        "listeners": "PLAINTEXT://127.0.0.1:1",
        "a": "file",
        "b": "environment",
        "c": "set",
    }
    assert run(["up", "--config", str(file), "--set", "listeners=PLAINTEXT://:7"]) == 0
    assert started.properties["listeners"] == "PLAINTEXT://:7"


@pytest.mark.parametrize("option", [["--port", "7"], ["--host", "0.0.0.0"]])
def test_host_and_port_do_not_replace_listeners_in_silence(
    started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:2\n")
    assert run(["up", "--config", str(file), *option]) == 1
    said = capsys.readouterr().err
    assert "conflict with listeners=PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:2" in said
    assert "--set listeners=" in said
    assert started.properties == {}


def test_toml_files_are_read(started: Started, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[log]\nretention.hours = 24\ndirs = ["a", "b"]\n')
    assert run(["up", "--config", str(file)]) == 0
    assert started.properties["log.retention.hours"] == "24"
    assert started.properties["log.dirs"] == "a,b"


def test_variables_of_its_own_options_are_no_broker_settings(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODMARK_PORT", "7")
    monkeypatch.setenv("FLOODMARK_DATA_DIR", "there")
    monkeypatch.setenv("FLOODMARK_PROFILE", "staging")
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", "somewhere:9092")
    assert run(["up"]) == 0
    assert started.properties == {"listeners": "PLAINTEXT://127.0.0.1:7", "log.dirs": "there"}


def test_it_says_where_it_listens_and_how_to_send_a_first_record(
    started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["up"])
    said = capsys.readouterr().out
    assert "listens on 127.0.0.1:9999" in said
    assert "echo hello | floodmark produce greetings -b 127.0.0.1:9999" in said


def test_it_says_the_path_of_a_program_that_the_shell_would_not_find(
    started: Started, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", [str(Path.cwd() / ".venv/bin/floodmark")])
    run(["up"])
    assert "echo hello | .venv/bin/floodmark produce greetings" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ConfigError("no such thing", hint="Use another"),
            "why: no such thing\n  try: Use another",
        ),
        (OSError(98, "cannot listen on h:1: Address already in use"), "another --host, --port"),
        (LogDirLocked("the folder is in use"), "another --data-dir"),
        (PermissionError(13, "Permission denied", "d/t-0/f"), "why: [Errno 13] Permission denied"),
        (PermissionError(13, "Permission denied", "d/t-0/f"), "another --data-dir"),
        (OSError(24, "Too many open files", "d/t-0/f"), "ulimit -n"),
    ],
)
def test_a_failed_start_is_explained(
    started: Started, capsys: pytest.CaptureFixture[str], error: Exception, text: str
) -> None:
    started.error = error
    assert run(["up"]) == 1
    assert text in capsys.readouterr().err


@contextmanager
def serving(folder: Path, *, before: str = "", closed: str) -> Iterator[subprocess.Popen[str]]:
    """A broker of its own process, with some of its standard streams closed; it has to stop in
    order inside."""
    command = f"{before}exec {sys.executable} -m floodmark up --port 0 --data-dir {folder} {closed}"
    with subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stderr is not None
        for line in broker.stderr:
            if line.rstrip().endswith("serves"):
                break
        yield broker
        rest = broker.stderr.read()
        assert broker.wait(30) == 0, rest
    assert "stopped cleanly" in rest


def test_a_broker_with_closed_output_serves_and_stops_in_order(tmp_path: Path) -> None:
    with serving(tmp_path, closed="<&- >&-") as broker:
        broker.send_signal(signal.SIGINT)


@pytest.mark.parametrize(("prefix", "ends_it"), [("", True), ("trap '' HUP; ", False)])
def test_a_closed_terminal_stops_it_in_order_unless_it_was_told_to_stay(
    tmp_path: Path, prefix: str, ends_it: bool
) -> None:
    with serving(tmp_path, before=prefix, closed=">&-") as broker:
        broker.send_signal(signal.SIGHUP)
        if not ends_it:
            with pytest.raises(subprocess.TimeoutExpired):
                broker.wait(1)
            broker.send_signal(signal.SIGTERM)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_an_unknown_setting_is_warned_of_with_what_was_meant(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "floodmark", "up", "--data-dir", str(tmp_path)]
    for pair in ("log.segmnt.bytes=100", "retention.ms=7", "xyzzy=1"):
        command += ["--set", pair]
    # This one is refused, so that the start ends behind the warning.
    command += ["--set", "authorizer.class.name=acl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "log.segmnt.bytes (did you mean log.segment.bytes?)" in done.stderr
    assert "retention.ms (a topic's setting; for all topics: log.retention.ms)" in done.stderr
    assert "xyzzy\n" in done.stderr


def test_a_cluster_whose_port_is_taken_starts_no_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a broker was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--brokers", "3", "--port", str(port), "--data-dir", str(tmp_path)]
        assert run(["up", *arguments]) == 1
    said = capsys.readouterr().err
    assert f"broker 1 cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert "try: choose another --host or --port" in said
