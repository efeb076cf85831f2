"""Limits how fast connections are opened: per address, per listener, per broker (KIP-612).

Used by the acceptors. A connection from an address that is too fast is closed after a delay. A
listener that is too fast pauses accepting.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.clock import Clock
from floodmark.security.rates import SampledRate, Windows, make_room

MOST_ADDRESSES = 10_000
"""Above this, idle addresses are dropped first, then all."""

BROKER = ""
"""Stands for all listeners combined."""


class CreationRates:
    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock = clock
        self._windows = windows
        self.limit_of_address: Callable[[str], float | None] = lambda address: None
        self.limits_of_listeners: dict[str, float] = {}
        """By name, and under `BROKER` for all combined. Names without a limit are absent."""
        self._addresses: dict[str, SampledRate] = {}
        self._listeners: dict[str, SampledRate] = {}
        self.throttled = 0
        """How many connections were closed because of their address's rate."""

    def address_delay_ms(self, address: str) -> int:
        """Counts a connection.

        If it exceeds the limit, does not count it, and returns how long to keep the client waiting
        before closing it.
        """
        limit = self.limit_of_address(address)
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._addresses.get(address)
        if rate is None:
            make_room(self._addresses, MOST_ADDRESSES, now_ms)
            rate = self._addresses[address] = SampledRate(self._windows)
        delay_ms = self._delay_ms(rate, limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)
            self.throttled += 1
        return delay_ms

    def listener_delay_ms(self, listener: str) -> int:
        """Counts a connection. Returns how long the listener must not accept another."""
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
