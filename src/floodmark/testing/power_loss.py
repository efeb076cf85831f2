"""Chooses what survives a simulated power loss. Used by `testing.memory_files`.

A crash image is built from a sequence of choices: how many of the unsynced writes reached the disk,
and where a torn one ends. One run of choices is one image.
"""

from __future__ import annotations

from random import Random
from typing import Protocol


class Choices(Protocol):
    """Chooses what survives a power loss."""

    def pick(self, count: int) -> int:
        """Picks a number below count; 0 means the least survives."""

    def cut(self, size: int) -> int:
        """Picks a position within this many bytes."""


class Nothing:
    """Only synced data survives."""

    def pick(self, count: int) -> int:
        return 0

    def cut(self, size: int) -> int:
        return 0


class Everything:
    """All written data survives."""

    def pick(self, count: int) -> int:
        return count - 1

    def cut(self, size: int) -> int:
        return size


class Chance:
    """Random choices."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pick(self, count: int) -> int:
        return self._random.randrange(count)

    def cut(self, size: int) -> int:
        return self._random.randrange(size)


class Odometer:
    """Enumerates all combinations of choices. Cuts are always in the middle."""

    def __init__(self) -> None:
        self._digits: list[int] = []
        self._counts: list[int] = []
        self._at = 0

    def pick(self, count: int) -> int:
        if self._at == len(self._digits):
            self._digits.append(0)
            self._counts.append(count)
        self._at += 1
        return self._digits[self._at - 1]

    def cut(self, size: int) -> int:
        return size // 2

    def turn(self) -> bool:
        """Advances to the next combination. Returns False after the last."""
        while self._digits and self._digits[-1] + 1 == self._counts[-1]:
            del self._digits[-1], self._counts[-1]
        self._at = 0
        if not self._digits:
            return False
        self._digits[-1] += 1
        return True
