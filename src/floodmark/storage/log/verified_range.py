"""The part of a segment's file that was verified since the broker started.

Kept by segment.py, used by log_reader.py for every read: two comparisons if all is well.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Shared by all segments without damage: a broker may have many thousands.
_NO_DAMAGE: Final[Mapping[tuple[int, int], tuple[str, tuple[int, int]]]] = MappingProxyType({})


class VerifiedRange:
    """Bytes from `trusted_from` on were appended or verified since the start.

    Below it, the range from `start` to `end` is verified. One range is enough: a reader elsewhere
    moves it there.
    """

    __slots__ = ("damaged", "end", "end_offset", "start", "trusted_from")

    def __init__(self, loaded_bytes: int) -> None:
        """`loaded_bytes` is the size left by an earlier run."""
        self.trusted_from = loaded_bytes
        self.start = 0
        self.end = 0
        # The offset after the range: the base offset of the batch at `end`.
        self.end_offset = 0
        # Damaged batches, by position and expected offset: the reason, and the position of the next
        # intact one. Finding that may require reading everything that follows.
        self.damaged: Mapping[tuple[int, int], tuple[str, tuple[int, int]]] = _NO_DAMAGE

    def covers(self, start: int, end: int) -> bool:
        return start >= self.trusted_from or (self.start <= start and end <= self.end)

    def note(self, start: int, end: int, end_offset: int) -> None:
        """A batch has been verified."""
        if start == self.end:
            self.end, self.end_offset = end, end_offset
        elif not self.start <= start < self.end:
            self.start, self.end, self.end_offset = start, end, end_offset
        if self.end >= self.trusted_from:
            self.trusted_from = self.start

    def note_damage(
        self, position: int, base_offset: int, found: str, after: tuple[int, int]
    ) -> None:
        self.damaged = {**self.damaged, (position, base_offset): (found, after)}

    def trust_from(self, position: int) -> None:
        """Recovery has verified everything from here to the end."""
        self.trusted_from = position

    def cut(self, size_bytes: int) -> None:
        """The file now ends here. Later appends were verified on their way in."""
        self.damaged = _NO_DAMAGE
        self.trusted_from = min(self.trusted_from, size_bytes)
        if self.end > size_bytes:
            # Its end is no longer the start of a known batch.
            self.start = self.end = 0
