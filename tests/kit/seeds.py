"""The seed of a random schedule: a new one, or the one that the environment repeats."""

import os
import secrets


def seed_from(variable: str) -> int:
    """Print it where it is used: a failure is repeated by setting this variable to it."""
    return int(os.environ.get(variable, "0")) or secrets.randbits(32)
