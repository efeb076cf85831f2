"""`invariant`: an assertion that is also checked under `python -O`."""

from __future__ import annotations


class InvariantViolation(AssertionError):
    """A bug in the program, not bad input. Continuing could damage data."""


def invariant(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantViolation(message)
