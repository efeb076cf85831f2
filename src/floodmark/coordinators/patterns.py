"""Regular expressions of clients, in RE2's syntax as in Kafka. PURE.

RE2 does not backtrack, but a short pattern can still stand for a large program: one with a few
repeated classes took more than a second to compile. That and the matching happen on the loop, so
the size of a program is bounded. Called by `groups.subscriptions` and `transactions.listing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

MAX_CHARS: Final = 4096
"""A pattern is matched against every name; a real one is far shorter."""

MAX_PROGRAM_BYTES: Final = 256 * 1024
"""Where RE2 gives up to compile: after some milliseconds instead of tenths of seconds."""

MAX_INSTRUCTIONS: Final = 1500
"""In the worst case each is looked at for every letter of every name, which takes nanoseconds. A
letter of a pattern is one of them, `.` ten, and `\\pL` 1200."""


class InvalidPattern(Exception):
    """The text says why."""


def full_match_of(pattern: str) -> Callable[[str], bool]:
    """A function that says whether all of a name matches. Raises InvalidPattern."""
    if len(pattern) > MAX_CHARS:
        raise InvalidPattern(f"it has more than {MAX_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PROGRAM_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as problem:
        raise InvalidPattern(problem.args[0].decode(errors="replace")) from problem
    if compiled.programsize > MAX_INSTRUCTIONS:
        raise InvalidPattern(
            f"it is too large: {compiled.programsize} instructions, {MAX_INSTRUCTIONS} are allowed"
        )
    return lambda name: compiled.fullmatch(name) is not None
