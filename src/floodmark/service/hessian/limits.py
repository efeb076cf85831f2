"""Limits for what a peer sends: a message may be invalid, but not expensive."""

from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

MAX_DEPTH = 150
"""Nested containers. Each level takes two of Python's thousand stack frames."""

MAX_CONTAINERS = 250_000
"""Lists, maps and objects of one message. An empty one is a byte on the wire and about 100 in
memory, so the size of a frame alone would not bound it."""

MAX_ITEMS = 2_000_000
"""Items of all lists and entries of all maps of one message: decoding runs on the event loop, and
this many take about a third of a second."""

MAX_CLASSES = 10_000
"""Class definitions of one message."""

MAX_KNOWN_SHAPES = 1_000
"""Field lists cached per service: a peer may send a class with any of them."""

MAX_SHAPE_LETTERS = 4_096
"""Longer field lists are not cached: a peer may send megabytes of names."""

MAX_COLLISIONS = 2_000
"""Map keys and set members per message that share their hash with another.

Python's hash of a number is its remainder modulo a prime, so large numbers can all collide. This
many take a tenth of a second then, a hundred times as many a quarter of an hour.
"""

_SAFE_KEYS = frozenset(
    {bool, bytes, date, datetime, float, str, time, timedelta, type(None)},
)
"""Their hashes are keyed, or too few values share one."""


class Collisions:
    """Watches the keys of one map or set."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[int, Any] = {}
        """The first key with each hash."""

    def is_one(self, key: Any) -> bool:
        """Whether another key has the same hash. Raises TypeError for a key without a hash."""
        return _is_wide(key) and bool(self._first.setdefault(hash(key), key) != key)


def _is_wide(key: Any) -> bool:
    """Whether it is a number of more than 64 bits, or may contain one.

    A Decimal and a UUID are such numbers, and an object of a class may hold one.
    """
    if type(key) is int:
        return key.bit_length() > 64
    return type(key) not in _SAFE_KEYS and not isinstance(key, Enum)
