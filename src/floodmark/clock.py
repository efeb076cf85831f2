"""The one place that reads the time.

Shells (broker, network, storage loops) are given a `Clock`; cores are given plain numbers. Tests
use `floodmark.testing.virtual_clock.VirtualClock` in its place.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for timeouts, CPU time for meters."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. Jumps when the machine's clock is set."""

    def monotonic_ms(self) -> float:
        """Milliseconds that never decrease. Only differences are meaningful."""

    def cpu_ms(self) -> float:
        """CPU milliseconds of the calling thread. Only differences are meaningful."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0

    def cpu_ms(self) -> float:
        return time.thread_time() * 1000.0
