"""Limits for what a peer sends: a message may be invalid, but not expensive."""

from decimal import Decimal
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
"""Field lists cached per registry: a peer may send a class with any of them."""

MAX_WIDE_KEYS = 2_000
"""Map keys and set members per message whose hash a peer can choose.

Python's hash of a number is its remainder modulo a prime, so large numbers can all collide. This
many take a tenth of a second then, a hundred times as many a quarter of an hour.
"""


def is_wide(key: Any) -> bool:
    """Whether it is a number of more than 64 bits, or may contain one."""
    if type(key) is int:
        return key.bit_length() > 64
    return isinstance(key, Decimal)
