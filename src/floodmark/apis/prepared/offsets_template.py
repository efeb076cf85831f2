"""Answers that are alike but for three offsets: the bytes around them, found once.

Produce and Fetch answer for one partition with three offsets in a row, and with the same bytes
around them each time. `OffsetsTemplate.of` finds where they lie by encoding two answers and looking
where these differ, so it knows no layout of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

CORRELATION_ID_BYTES = 4
_OFFSETS_BYTES = 24


@dataclass(slots=True, frozen=True)
class OffsetsTemplate:
    """`pack(correlation_id, front, first, second, third, back)` is an answer."""

    pack: Callable[..., bytes]
    front: bytes
    back: bytes

    @classmethod
    def of(cls, answer: Callable[[int], bytes]) -> OffsetsTemplate:
        """From what encodes an answer in which all three are a given number."""
        zeros, ones = (answer(value)[CORRELATION_ID_BYTES:] for value in (0, -1))
        pairs = enumerate(zip(zeros, ones, strict=True))
        start = next(at for at, (zero, one) in pairs if zero != one)
        front, back = zeros[:start], zeros[start + _OFFSETS_BYTES :]
        assert front + b"\xff" * _OFFSETS_BYTES + back == ones, "three offsets in a row"
        return cls(Struct(f">i{len(front)}sqqq{len(back)}s").pack, front, back)
