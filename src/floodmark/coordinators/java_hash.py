"""Java's String.hashCode, which maps groups and transactional ids to partitions. PURE.

Used by the services of both coordinators, and to tell clients where to find them.
"""

from __future__ import annotations

from functools import lru_cache

CACHED_KEYS = 8192
"""Every commit and heartbeat names a group; hashing it each time would be noticeable."""
LONGEST_CACHED_KEY = 256
"""A key may have 32 KiB. Anyone could send thousands of those, so they are not cached."""


def java_string_hash(text: str) -> int:
    """Hashes UTF-16 code units into a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_cached_hash = lru_cache(maxsize=CACHED_KEYS)(java_string_hash)


def partition_for(key: str, partition_count: int) -> int:
    """Like Kafka's Utils.abs, maps the smallest int, which has no positive counterpart, to 0."""
    value = _cached_hash(key) if len(key) <= LONGEST_CACHED_KEY else java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partition_count
