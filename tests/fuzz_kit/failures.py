"""Finds in a broker's log the requests that failed inside it: each kind once, with how often."""

from __future__ import annotations

import re
from collections import Counter

MARK = "failed inside the broker"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')


def distinct_failures(output: str) -> list[str]:
    """`3 times: KeyError: 'x' at .../produce.py:12`, the most frequent first."""
    found: Counter[str] = Counter()
    place = ""
    inside = False
    for line in output.splitlines():
        if MARK in line:
            inside, place = True, ""
        elif inside and (frame := _FRAME.match(line)):
            place = f"{frame['file']}:{frame['line']}"
        elif inside and line and not line.startswith((" ", "Traceback")):
            found[f"{line[:200]} at {place}"] += 1
            inside = False
    return [f"{count} times: {failure}" for failure, count in found.most_common()]
