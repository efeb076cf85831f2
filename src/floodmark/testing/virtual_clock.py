"""A clock that stands still until a test advances it. Implements `floodmark.clock.Clock`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from floodmark.clock import SystemClock

FIXED_START_MS = 1_700_000_000_000
"""For runs that must be reproducible, such as simulations: `VirtualClock(FIXED_START_MS)`."""


class VirtualClock:
    """Starts now, or at `now_ms` (milliseconds since 1970), and moves only with `advance`.

        clock = VirtualClock()
        with Broker(clock=clock) as broker:
            ...
            clock.advance(timedelta(days=8))  # everything due by then happens now

    A `floodmark.testing` broker also waits by this clock: its timeouts and periodic work run only
    when the clock advances.
    """

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = SystemClock().now_ms() if now_ms is None else now_ms
        self._monotonic_ms = 0.0
        self._watchers: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """The virtual wall time."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """Virtual milliseconds since the start."""
        return self._monotonic_ms

    def cpu_ms(self) -> float:
        """No CPU time passes."""
        return 0.0

    def advance(self, elapsed: int | timedelta) -> None:
        """Advances by milliseconds or a timedelta. Thread-safe."""
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
        """Jumps the wall clock only, as an administrator or NTP may do."""
        self._now_ms = now_ms

    def watch(self, watcher: Callable[[], object]) -> Callable[[], None]:
        """Calls `watcher` after each `advance`, on the advancing thread.

        Returns a stop function.
        """
        with self._lock:
            self._watchers.append(watcher)

        def stop() -> None:
            with self._lock:
                self._watchers.remove(watcher)

        return stop


_MILLISECOND = timedelta(milliseconds=1)
