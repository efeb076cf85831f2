"""The command line as a whole: help, exit codes, what is imported when."""

import subprocess
import sys

import pytest

from floodmark.cli.main import COMMANDS, run


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert "Usage: floodmark" in capsys.readouterr().out


def test_help_imports_no_command_and_no_client() -> None:
    """What is imported decides how fast --help answers; a list is steadier than a stopwatch."""
    script = (
        "import sys\n"
        "from floodmark.cli.main import run\n"
        "run(['--help'])\n"
        "loaded = [n for n in sys.modules if n.startswith('floodmark.')]\n"
        "print(sorted(loaded), 'asyncio' in sys.modules, 'rich' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    expected = ["floodmark.cli", "floodmark.cli.lazy", "floodmark.cli.main"]
    assert done.stdout.splitlines()[-1] == f"{expected} False False"


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "floodmark", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.startswith("floodmark ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topic", "create"],
        ["topic", "alter", "t"],
        ["topic", "create", "t", "--replica-assignment", "x"],
        ["topic", "create", "t", "--config", "novalue"],
        ["config", "describe"],
        ["config", "alter", "--topic", "t"],
        ["config", "describe", "--entity-type", "brokers", "--entity-name", "abc"],
        ["produce"],
        ["produce", "t", "-D", "\\xzz"],
        ["consume"],
        ["consume", "t", "--offset", "soon"],
        ["consume", "t", "--from-time", "tomorrow"],
        ["consume", "t", "--from-beginning", "--last", "3"],
        ["consume", "t", "--from-beginning", "-F", "%z"],
        ["cat", "-C"],
        ["cat", "-Q", "-t", "t"],
        ["log", "dump"],
        ["up", "--port", "99999"],
    ],
)
def test_wrong_usage_ends_with_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["config", "describe", "--topic", "t"],
        ["consume", "t", "--from-beginning"],
        ["bench", "produce", "--records", "1"],
    ],
)
def test_an_absent_broker_ends_with_one_and_says_what_to_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--bootstrap-server", "127.0.0.1:1"]) == 1
    error = capsys.readouterr().err
    assert "the broker cannot be reached" in error
    assert "why: " in error
    assert "try: start one with `floodmark up`" in error


def test_the_bootstrap_server_may_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", "127.0.0.1:2")
    assert run(["topic", "list"]) == 1
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_a_bad_client_setting_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["produce", "t", "-X", "acks=7", "-b", "127.0.0.1:1"]) == 1
    assert "acks=7 is not possible" in capsys.readouterr().err


def test_interruption_is_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_work: object) -> None:
        _work.close()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("floodmark.cli.topic.run_client", interrupted)
    assert run(["topic", "list"]) == 130
    captured = capsys.readouterr()
    # click ends the line on which the terminal echoed ^C.
    assert (captured.out, captured.err.strip()) == ("", "")
