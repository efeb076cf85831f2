"""The numbers that a scrape copies from the broker, on its loop, a few at a time.

Filled by `collecting` and its helpers, rendered by `metrics` in a thread.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from floodmark.clock import Clock
from floodmark.observability.timings import ApiNumbers

SLICE_MS = 2.0
"""How long a scrape may keep the loop busy before clients get a turn."""


class Readings:
    """Values by metric and label values, in the order of the labels in the catalog."""

    def __init__(self) -> None:
        self.values: dict[str, list[tuple[tuple[str, ...], float]]] = defaultdict(list)
        self.times: Mapping[int, ApiNumbers] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """A value with fewer labels than in the catalog is a total over the others."""
        self.values[name].append((labels, value))


class Turns:
    """Shares the loop: code that copies many numbers calls `pause` between them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin_ms = clock.monotonic_ms()

    async def pause(self) -> None:
        if self._clock.monotonic_ms() - self._begin_ms >= SLICE_MS:
            await asyncio.sleep(0)
            self._begin_ms = self._clock.monotonic_ms()
