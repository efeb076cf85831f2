"""Templates for responses that differ only in three offsets.

Produce and Fetch respond for one partition with three consecutive offsets and otherwise identical
bytes. `OffsetsTemplate.of` finds their position by encoding two responses and comparing them, so it
does not depend on the layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

CORRELATION_ID_BYTES = 4
_OFFSETS_BYTES = 24


@dataclass(slots=True, frozen=True)
class OffsetsTemplate:
    """`pack(correlation_id, front, first, second, third, back)` builds a response."""

    pack: Callable[..., bytes]
    front: bytes
    back: bytes

    @classmethod
    def of(cls, answer: Callable[[int], bytes]) -> OffsetsTemplate:
        """`answer` encodes a response with the same number in all three offsets."""
        zeros, ones = (answer(value)[CORRELATION_ID_BYTES:] for value in (0, -1))
        pairs = enumerate(zip(zeros, ones, strict=True))
        start = next(at for at, (zero, one) in pairs if zero != one)
        front, back = zeros[:start], zeros[start + _OFFSETS_BYTES :]
        assert front + b"\xff" * _OFFSETS_BYTES + back == ones, "three consecutive offsets"
        return cls(Struct(f">i{len(front)}sqqq{len(back)}s").pack, front, back)
