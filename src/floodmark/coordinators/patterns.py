"""Clients' regular expressions, in RE2 syntax as in Kafka. PURE.

RE2 does not backtrack, but a short pattern can still compile to a large program: one with a few
repeated classes took more than a second. Compiling may run on the loop, so the program size is
bounded. Matching can take milliseconds for each long name, so many names are matched in a thread.
Called by `groups.subscriptions` and `transactions.listing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

MAX_CHARS: Final = 4096
"""A pattern is matched against every name. Real ones are far shorter."""

MAX_PROGRAM_BYTES: Final = 256 * 1024
"""RE2 stops compiling at this size: after milliseconds instead of tenths of a second."""

MAX_INSTRUCTIONS: Final = 1500
"""In the worst case, every letter of every name visits each instruction, for ten nanoseconds.

A letter in a pattern is one instruction, `.` ten, and `\\pL` 1200.
"""


class InvalidPattern(Exception):
    """The text gives the reason."""


def full_match_of(pattern: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a full name matches. Raises InvalidPattern."""
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
            f"it is too large: {compiled.programsize} instructions, the limit is {MAX_INSTRUCTIONS}"
        )
    return lambda name: compiled.fullmatch(name) is not None
