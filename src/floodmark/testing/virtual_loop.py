"""An event loop whose time is a VirtualClock's: what waits on it waits for the test to move time.

Used by `broker_thread` for brokers with such a clock. Sockets and threads are served as ever; only
timers stand still with the clock.
"""

from __future__ import annotations

import asyncio

from floodmark.testing.virtual_clock import VirtualClock


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        self._virtual_clock = clock
        super().__init__()
        # A loop that sleeps must look at its timers again when time has moved.
        self._stop_watching = clock.watch(lambda: self.call_soon_threadsafe(_look_again))

    def time(self) -> float:
        return self._virtual_clock.monotonic_ms() / 1000

    def close(self) -> None:
        if not self.is_closed():
            self._stop_watching()
        super().close()


def _look_again() -> None:
    pass
