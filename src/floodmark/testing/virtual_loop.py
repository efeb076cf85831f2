"""An event loop that runs on a VirtualClock: timers wait for the test to advance the clock.

Used by `broker_thread` for brokers with a virtual clock. Sockets and threads work as usual.
"""

from __future__ import annotations

import asyncio

from floodmark.testing.virtual_clock import VirtualClock


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        self._virtual_clock = clock
        super().__init__()
        # A sleeping loop must check its timers after the clock advances.
        self._stop_watching = clock.watch(lambda: self.call_soon_threadsafe(_look_again))

    def time(self) -> float:
        return self._virtual_clock.monotonic_ms() / 1000

    def close(self) -> None:
        if not self.is_closed():
            self._stop_watching()
        super().close()


def _look_again() -> None:
    pass
