"""Deadlines of many keys in one heap. CORE: the caller passes the time.

Used by `coordinators.runtime`. Heartbeats postpone a session's deadline far more often than a
session ends. So postponing only records the new deadline, and the heap entry is corrected when its
old time comes.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NEVER = float("inf")

_SWEEP_AT_LEAST = 256
"""Cancelled timers stay in the heap until their time comes. A small heap is not worth a sweep."""


class _Entry(Generic[K, V]):
    __slots__ = ("deadline_ms", "heap_ms", "key", "value")

    def __init__(self, key: K, deadline_ms: float, value: V) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.heap_ms = deadline_ms
        self.value: V | None = value


class TimerQueue(Generic[K, V]):
    def __init__(self) -> None:
        self._entries: dict[K, _Entry[K, V]] = {}
        self._heap: list[tuple[float, int, _Entry[K, V]]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def keys(self) -> list[K]:
        return list(self._entries)

    def schedule(self, key: K, deadline_ms: float, value: V) -> None:
        entry = self._entries.get(key)
        if entry is not None and deadline_ms >= entry.heap_ms:
            entry.deadline_ms = deadline_ms
            entry.value = value
            return
        if entry is not None:
            entry.value = None
        entry = _Entry(key, deadline_ms, value)
        self._entries[key] = entry
        self._push(entry)

    def cancel(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.value = None

    def next_deadline_ms(self) -> float:
        """Not later than the earliest deadline; infinite if there is none."""
        while self._heap and self._heap[0][2].value is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else _NEVER

    def pop_due(self, now_ms: float) -> tuple[K, V] | None:
        """One due timer, the earliest first."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)[2]
            if entry.value is None:
                continue
            if entry.deadline_ms > entry.heap_ms:
                entry.heap_ms = entry.deadline_ms
                self._push(entry)
                continue
            del self._entries[entry.key]
            return entry.key, entry.value
        return None

    def _push(self, entry: _Entry[K, V]) -> None:
        self._serial += 1
        heappush(self._heap, (entry.heap_ms, self._serial, entry))
        if len(self._heap) > _SWEEP_AT_LEAST and len(self._heap) > 4 * len(self._entries):
            self._heap = [item for item in self._heap if item[2].value is not None]
            heapify(self._heap)
