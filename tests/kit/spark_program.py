"""Programs of PySpark in a process of their own, with the Python that runs the tests."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run_spark_program(command: Sequence[str], folder: Path) -> str:
    """Runs it in `folder` and returns what it printed. A program that fails fails the test."""
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    outcome = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | python | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stdout[-5000:] + outcome.stderr[-5000:]
    return outcome.stdout
