"""A clock that stands still until a test moves it; for everything that takes a
`floodmark.clock.Clock`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from floodmark.clock import SystemClock

FIXED_START_MS = 1_700_000_000_000
"""For what has to be the same in every run, such as simulations: `VirtualClock(FIXED_START_MS)`."""


class VirtualClock:
    """Starts now, or at `now_ms` (milliseconds since 1970), and moves only by `advance`.

        clock = VirtualClock()
        with Broker(clock=clock) as broker:
            ...
            clock.advance(timedelta(days=8))  # whatever is due by then happens now

    A broker of `floodmark.testing` waits by this clock, too: its timeouts and periodic work come
    due when the clock is moved, and not before.
    """

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = SystemClock().now_ms() if now_ms is None else now_ms
        self._monotonic_ms = 0.0
        self._watchers: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def cpu_ms(self) -> float:
        """Nothing is computed while it stands still."""
        return 0.0

    def advance(self, elapsed: int | timedelta) -> None:
        """Let this much time pass: milliseconds, or a timedelta. May be called from any thread."""
        elapsed_ms = elapsed // _MILLISECOND if isinstance(elapsed, timedelta) else elapsed
        if elapsed_ms < 0:
            raise ValueError(
                f"time cannot go back by {-elapsed_ms} ms; use set_wall for clock jumps"
            )
        with self._lock:
            self._now_ms += elapsed_ms
            self._monotonic_ms += elapsed_ms
            for watcher in self._watchers:
                watcher()

    def set_wall(self, now_ms: int) -> None:
        """Jump the wall clock only, as an administrator or NTP may do."""
        self._now_ms = now_ms

    def watch(self, watcher: Callable[[], object]) -> Callable[[], None]:
        """Call `watcher` after each `advance`, on the thread that advances; returns how to stop."""
        with self._lock:
            self._watchers.append(watcher)

        def stop() -> None:
            with self._lock:
                self._watchers.remove(watcher)

        return stop


_MILLISECOND = timedelta(milliseconds=1)
