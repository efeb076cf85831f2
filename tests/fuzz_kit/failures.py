"""Finds in a broker's log what failed inside it: each kind once, with how often."""

from __future__ import annotations

import re
from collections import Counter

MARKS = ("failed inside the broker", "ERROR asyncio:")
"""The supervisor of requests, and the loop, which reports what nobody else caught."""

_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def distinct_failures(output: str) -> list[str]:
    """`3 times: KeyError: 'x' at .../produce.py:12`, the most frequent first."""
    found: Counter[str] = Counter()
    failure: list[str] = []
    for line in [*output.splitlines(), "0000-00-00 00:00:00 end"]:
        if _LOG_LINE.match(line):
            if failure:
                found[_summary(failure)] += 1
            failure = [line] if any(mark in line for mark in MARKS) else []
        elif failure:
            failure.append(line)
    return [f"{count} times: {summary}" for summary, count in found.most_common()]


def _summary(lines: list[str]) -> str:
    """The last frame and the exception behind it, or the line itself when there is no traceback."""
    places = [f"{frame['file']}:{frame['line']}" for line in lines if (frame := _FRAME.match(line))]
    return f"{lines[-1][:200]} at {places[-1]}" if places else lines[0][24:]
