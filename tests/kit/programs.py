"""Runs client programs and tools to their end."""

import subprocess
from pathlib import Path


def run_program(command: list[str], timeout_s: float = 90, cwd: Path | None = None) -> str:
    """Run a client program; what it printed is the message of the failure."""
    try:
        outcome = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"not over after {timeout_s} s: {late.stdout!r}") from None
    if outcome.returncode != 0:
        raise AssertionError(f"exit {outcome.returncode}:\n{outcome.stdout}\n{outcome.stderr}")
    return outcome.stdout
