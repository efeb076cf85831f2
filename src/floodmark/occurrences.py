"""Counts repeated events and decides which of them to log.

A client that repeats a mistake must not fill the log, so only the first, second, fourth, eighth...
occurrence of a kind is logged, with its count. PURE.
"""

from __future__ import annotations

MAX_KINDS = 1000
"""Beyond this many kinds, all counts start over."""

MAX_KIND_LENGTH = 200


class Occurrences:
    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def worth_telling(self, kind: str) -> int:
        """Counts an occurrence. Returns the count if it should be logged, otherwise 0."""
        kind = kind[:MAX_KIND_LENGTH]
        if len(self._times) >= MAX_KINDS and kind not in self._times:
            self._times.clear()
        times = self._times[kind] = self._times.get(kind, 0) + 1
        return times if times.bit_count() == 1 else 0


def repeated(times: int) -> str:
    """Text to append to a message that `worth_telling` let through. Empty for the first one."""
    return "" if times == 1 else f" ({times} times by now)"
