"""A clock that stands still until a test moves it; for everything that takes a
`floodmark.clock.Clock`.
"""

from __future__ import annotations

DEFAULT_START_MS = 1_700_000_000_000


class VirtualClock:
    """Both clocks move together, by `advance`; `set_wall` alone lets a test jump the wall clock."""

    def __init__(self, now_ms: int = DEFAULT_START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def cpu_ms(self) -> float:
        """Nothing is computed while it stands still."""
        return 0.0

    def advance(self, elapsed_ms: int) -> None:
        if elapsed_ms < 0:
            raise ValueError(
                f"time cannot go back by {-elapsed_ms} ms; use set_wall for clock jumps"
            )
        self._now_ms += elapsed_ms
        self._monotonic_ms += elapsed_ms

    def set_wall(self, now_ms: int) -> None:
        """Jump the wall clock only, as an administrator or NTP may do."""
        self._now_ms = now_ms
