"""The delay between attempts: exponential, capped, with jitter (KIP-580).

Used by the cluster for requests and by producer and consumer for their own retries.
"""

from __future__ import annotations

import random

JITTER = 0.2


class Backoff:
    """The delay before attempt n. Jitter keeps many clients from retrying at the same instant."""

    def __init__(
        self, initial_ms: float, max_ms: float, *, generator: random.Random | None = None
    ) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(initial_ms, max_ms)
        self._random = generator or random.Random()

    def delay_ms(self, failures: int) -> float:
        """The delay after this many consecutive failures (1 or more)."""
        # Bound the exponent: a long outage must not overflow the float.
        delay = min(self._initial_ms * 2.0 ** min(failures - 1, 30), self._max_ms)
        return delay * self._random.uniform(1 - JITTER, 1 + JITTER)
