"""How fast connections may be opened: by one address, on one listener, on the broker (KIP-612).

Asked by the acceptors. A connection of an address that is too fast is closed after a while; a
listener that is too fast accepts nothing for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.clock import Clock
from floodmark.security.rates import SampledRate, Windows

MOST_ADDRESSES = 10_000
"""Above this, addresses that are idle are forgotten, and then all."""

BROKER = ""
"""Stands for all listeners together."""


class CreationRates:
    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock = clock
        self._windows = windows
        self.limit_of_address: Callable[[str], float | None] = lambda address: None
        self.limits_of_listeners: dict[str, float] = {}
        """By name, and under `BROKER` for all together. Those without a limit are missing."""
        self._addresses: dict[str, SampledRate] = {}
        self._listeners: dict[str, SampledRate] = {}
        self.throttled = 0
        """How many connections were closed because of their address."""

    def address_delay_ms(self, address: str) -> int:
        """Counts a connection; if it is one too many, how long to keep its client waiting before
        it is closed, and it does not count."""
        limit = self.limit_of_address(address)
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._addresses.get(address)
        if rate is None:
            self._make_room(now_ms)
            rate = self._addresses[address] = SampledRate(self._windows)
        delay_ms = self._delay_ms(rate, limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)
            self.throttled += 1
        return delay_ms

    def listener_delay_ms(self, listener: str) -> int:
        """Counts a connection; for how long the listener must not accept another."""
        now_ms, delay_ms = self._clock.monotonic_ms(), 0
        for name in (listener, BROKER):
            limit = self.limits_of_listeners.get(name)
            if limit is not None:
                rate = self._listeners.setdefault(name, SampledRate(self._windows))
                delay_ms = max(delay_ms, self._delay_ms(rate, limit, now_ms))
        return delay_ms

    def _delay_ms(self, rate: SampledRate, limit: float, now_ms: float) -> int:
        rate.record(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self._windows.sample_ms)

    def _make_room(self, now_ms: float) -> None:
        if len(self._addresses) >= MOST_ADDRESSES:
            idle = [address for address, rate in self._addresses.items() if rate.is_idle(now_ms)]
            for address in idle:
                del self._addresses[address]
        if len(self._addresses) >= MOST_ADDRESSES:
            self._addresses.clear()
