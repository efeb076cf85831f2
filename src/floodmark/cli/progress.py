"""A progress line on stderr for work that takes longer than two seconds."""

from __future__ import annotations

import sys

from floodmark.clock import Clock, SystemClock

QUIET_MS = 2_000
INTERVAL_MS = 500


class Progress:
    """Silent at first, and always if stderr is not a terminal. Clears the line at the end."""

    def __init__(
        self, noun: str, *, enabled: bool | None = None, clock: Clock | None = None
    ) -> None:
        self._noun = noun
        self._clock: Clock = clock or SystemClock()
        self._enabled = sys.stderr.isatty() if enabled is None else enabled
        self._started_ms = self._clock.monotonic_ms()
        self._shown_ms = 0.0
        self._shown = False

    def update(self, done: int, total: int | None = None) -> None:
        if not self._enabled:
            return
        now_ms = self._clock.monotonic_ms()
        elapsed_ms = now_ms - self._started_ms
        if elapsed_ms < QUIET_MS or now_ms - self._shown_ms < INTERVAL_MS:
            return
        self._shown_ms = now_ms
        self._shown = True
        of_total = f" of {total:,}" if total else ""
        rate = done / (elapsed_ms / 1000)
        sys.stderr.write(f"\r\x1b[K{done:,}{of_total} {self._noun}, {rate:,.0f} per second")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
