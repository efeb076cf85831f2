"""`invariant`: what must hold, checked even under `python -O`, where a plain assert vanishes."""

from __future__ import annotations


class InvariantViolation(AssertionError):
    """The program is wrong, not its input: going on could damage data."""


def invariant(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantViolation(message)
