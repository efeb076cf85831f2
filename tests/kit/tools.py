"""Skips a test whose outside tool is missing; under CI=true the missing tool is a failure."""

import os
import shutil

import pytest


def missing(reason: str) -> None:
    """End the test: a skip on a developer's machine, a failure in CI, where all must be there."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI must have it: {reason}", pytrace=False)
    pytest.skip(reason)


def require_tool(*names: str) -> None:
    """Ask for programs on the PATH before anything that runs them."""
    for name in names:
        if shutil.which(name) is None:
            missing(f"{name} is not on the PATH")
