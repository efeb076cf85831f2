"""Picks a record's partition: by key as Java's producer does, otherwise sticky.

The producer calls it for every record without an explicit partition.
"""

from __future__ import annotations

import random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Java's 32-bit murmur2 as an unsigned number. All clients that hash keys must agree."""
    length = len(data)
    h = _SEED ^ length
    end = length & ~3
    for i in range(0, end, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length > end:
        # The last one to three bytes, least significant first.
        h = (h ^ int.from_bytes(data[end:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Java masks the sign bit instead of taking the absolute value."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Keeps records without a key on one partition until its batch closes, then moves on.

    This fills batches and, over time, spreads records evenly (KIP-480).
    """

    def __init__(self, generator: random.Random | None = None) -> None:
        self._random = generator or random.Random()
        self._counters: dict[str, int] = {}

    def current(self, topic: str, available: list[int]) -> int:
        counter = self._counters.get(topic)
        if counter is None:
            # Short-lived producers must not all start with partition 0.
            counter = self._counters[topic] = self._random.randrange(1 << 16)
        return available[counter % len(available)]

    def advance(self, topic: str) -> None:
        """Moves on, because the batch of `current` is closed."""
        self._counters[topic] = self._counters.get(topic, 0) + 1
