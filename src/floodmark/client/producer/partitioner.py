"""Which partition a record goes to: by its key as Java's producer decides, else one after another.

Called by the producer for every record without a given partition.
"""

from __future__ import annotations

import random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Java's 32-bit murmur2, as an unsigned number; every client that hashes keys must agree."""
    length = len(data)
    h = _SEED ^ length
    end = length & ~3
    for i in range(0, end, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length > end:
        # The last one to three bytes, lowest first.
        h = (h ^ int.from_bytes(data[end:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Java masks the sign away instead of taking the absolute value."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Records without a key stay on one partition until its batch is closed, then move to the next.

    Batches get full that way, and over time every partition gets its share (KIP-480).
    """

    def __init__(self, generator: random.Random | None = None) -> None:
        self._random = generator or random.Random()
        self._counters: dict[str, int] = {}

    def current(self, topic: str, available: list[int]) -> int:
        counter = self._counters.get(topic)
        if counter is None:
            # Many short-lived producers must not all begin with partition 0.
            counter = self._counters[topic] = self._random.randrange(1 << 16)
        return available[counter % len(available)]

    def advance(self, topic: str) -> None:
        """The batch that `current` led to is closed."""
        self._counters[topic] = self._counters.get(topic, 0) + 1
