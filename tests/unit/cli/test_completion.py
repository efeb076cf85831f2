"""Completion of commands, options and profiles in the shell."""

import os
import subprocess
import sys

import pytest

from floodmark.cli.main import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_FLOODMARK_COMPLETE={shell}_complete" in script
    assert "floodmark" in script


def completed(line: str) -> list[str]:
    """As bash asks when Tab is pressed at the end of the line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", "from floodmark.cli.main import main; main()"],
        env={
            **os.environ,
            "_FLOODMARK_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return [item.partition(",")[2] for item in done.stdout.splitlines()]


def test_commands_options_and_profiles_are_completed() -> None:
    assert completed("floodmark pro") == ["produce", "profile"]
    assert completed("floodmark topic add") == ["add-partitions"]
    assert "--partitions" in completed("floodmark topic create --part")
    assert run(["profile", "create", "staging"]) == 0
    assert completed("floodmark topic list --profile sta") == ["staging"]


def test_completing_a_command_imports_none_of_them() -> None:
    script = (
        "import os, sys\n"
        "from floodmark.cli.main import cli\n"
        "import click\n"
        "names = [item.value for item in cli.shell_complete(click.Context(cli), 'top')]\n"
        "print(names, [n for n in sys.modules if n.startswith('floodmark.client')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "['topic'] []\n"
