"""What of a segment's file has been checked in this run of the broker.

Kept by segment.py, asked by log_reader.py at every read: two comparisons where all is well.
"""

from __future__ import annotations


class VerifiedRange:
    """Bytes from `trusted_from` on were appended or checked since the start; of those below, the
    stretch from `start` to `end` has been checked. One stretch is enough: whoever reads elsewhere
    moves it there."""

    __slots__ = ("damaged", "end", "end_offset", "start", "trusted_from")

    def __init__(self, loaded_bytes: int) -> None:
        """`loaded_bytes` is what an earlier run has left."""
        self.trusted_from = loaded_bytes
        self.start = 0
        self.end = 0
        # The offset that follows the stretch: what the batch at `end` must begin with.
        self.end_offset = 0
        # Batches that are not whole, by their position and the offset that was looked for: why, and
        # where the next whole one is. To find that out may take a look at all that follows.
        self.damaged: dict[tuple[int, int], tuple[str, tuple[int, int]]] = {}

    def covers(self, start: int, end: int) -> bool:
        return start >= self.trusted_from or (self.start <= start and end <= self.end)

    def note(self, start: int, end: int, end_offset: int) -> None:
        """A batch has been checked."""
        if start == self.end:
            self.end, self.end_offset = end, end_offset
        elif not self.start <= start < self.end:
            self.start, self.end, self.end_offset = start, end, end_offset
        if self.end >= self.trusted_from:
            self.trusted_from = self.start

    def trust_from(self, position: int) -> None:
        """Recovery has checked everything from here to the end."""
        self.trusted_from = position

    def cut(self, size_bytes: int) -> None:
        """The file ends here now; what is appended next was checked on its way in."""
        self.damaged.clear()
        self.trusted_from = min(self.trusted_from, size_bytes)
        if self.end > size_bytes:
            # Where it ended is no longer the beginning of a batch that is known.
            self.start = self.end = 0
