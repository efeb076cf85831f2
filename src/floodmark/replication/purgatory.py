"""CORE: operations that wait for an event or their deadline.

A fetch that found too little and a produce that followers have not copied yet wait here. Code that
changes a partition calls `check(key)`. The shell calls `expire(now_ms)` at `next_deadline_ms()`. An
operation completes once, by whichever comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)


Key_contra = TypeVar("Key_contra", bound=Hashable, contravariant=True)


class Operation(Protocol[Key_contra]):
    def try_complete(self, key: Key_contra) -> bool:
        """`key` has changed: completes the operation if that suffices. Returns whether it did."""

    def expire(self) -> None:
        """The deadline has passed: completes the operation with what is available."""


class _Entry(Generic[Key]):
    __slots__ = ("keys", "operation")

    def __init__(self, operation: Operation[Key], keys: tuple[Key, ...]) -> None:
        self.operation: Operation[Key] | None = operation
        self.keys = keys


MINIMUM_SWEEP = 1000
"""Completed operations stay in the deadline heap until it has this many and most are done."""


class Purgatory(Generic[Key]):
    def __init__(self) -> None:
        # Waiting operations by key. Empty if there are none.
        self.watchers: dict[Key, dict[_Entry[Key], None]] = {}
        self._deadlines: list[tuple[float, int, _Entry[Key]]] = []
        self._sequence = count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def next_deadline_ms(self) -> float | None:
        """The earliest deadline of a pending operation."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].operation is None:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def watch(
        self, operation: Operation[Key], keys: Iterable[Key], deadline_ms: float
    ) -> Callable[[], None]:
        """Adds the operation. Returns a function that removes it."""
        entry = _Entry(operation, tuple(keys))
        for key in entry.keys:
            self.watchers.setdefault(key, {})[entry] = None
        heapq.heappush(self._deadlines, (deadline_ms, next(self._sequence), entry))
        self._waiting += 1
        self._drop_ended()
        return lambda: self._forget(entry)

    def check(self, key: Key) -> None:
        """Completes the operations that a change of `key` satisfies."""
        watchers = self.watchers.get(key)
        if not watchers:
            return
        for entry in list(watchers):
            if entry.operation is not None and entry.operation.try_complete(key):
                self._forget(entry)

    def expire(self, now_ms: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            entry = heapq.heappop(self._deadlines)[2]
            operation = entry.operation
            if operation is not None:
                self._forget(entry)
                operation.expire()

    def expire_all(self) -> None:
        """Completes all operations at shutdown."""
        self.expire(float("inf"))

    def _forget(self, entry: _Entry[Key]) -> None:
        if entry.operation is None:
            return
        entry.operation = None
        self._waiting -= 1
        for key in entry.keys:
            watchers = self.watchers.get(key)
            if watchers is not None:
                watchers.pop(entry, None)
                if not watchers:
                    del self.watchers[key]

    def _drop_ended(self) -> None:
        if len(self._deadlines) < MINIMUM_SWEEP or len(self._deadlines) < 2 * self._waiting:
            return
        self._deadlines = [item for item in self._deadlines if item[2].operation is not None]
        heapq.heapify(self._deadlines)
