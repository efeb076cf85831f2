"""Counts how often something happened, and says when it is worth a line in the log.

A client that repeats a mistake must not fill the log: the first, second, fourth, eighth... time of
a kind is told, with the count. PURE.
"""

from __future__ import annotations

MAX_KINDS = 1000
"""When more kinds have been seen than this, all are forgotten and may be told again."""

MAX_KIND_LENGTH = 200


class Occurrences:
    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def worth_telling(self, kind: str) -> int:
        """How many times it has happened by now if that is to be told, else 0."""
        kind = kind[:MAX_KIND_LENGTH]
        if len(self._times) >= MAX_KINDS and kind not in self._times:
            self._times.clear()
        times = self._times[kind] = self._times.get(kind, 0) + 1
        return times if times.bit_count() == 1 else 0
