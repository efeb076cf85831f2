"""Pipeline commands in an environment without PySpark say what is missing and how to get it."""

import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.pipeline.authoring.template import write_template

PROGRAM = """
import sys

sys.modules["pyspark"] = sys.modules["py4j"] = None
from floodmark.cli.main import run

sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_command_that_needs_spark_says_how_to_install_it(tmp_path: Path, command: str) -> None:
    folder = write_template(tmp_path / "words")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "pipeline", command, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: pipelines need PySpark\n")
    assert "[spark]" in done.stderr
