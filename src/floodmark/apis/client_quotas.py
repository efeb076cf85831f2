"""Quotas of users and client ids: counts what requests take, and says how long to wait.

Made by `broker.quotas`, which calls `use` with every change of quotas. Which limit counts for a
client, and with whom it shares it, is looked up once per change. Rates go on over a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from floodmark.apis.quotas import Usage
from floodmark.clock import Clock
from floodmark.network.principal import ANONYMOUS, Principal
from floodmark.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    QuotaLimits,
    Sharers,
)
from floodmark.security.rates import SampledRate, TokenBucket, Windows
from floodmark.wire.api_keys import ApiKey

MOST_CLIENTS = 10_000
"""Clients choose their ids: above this, what is idle is forgotten, and then everything."""

PERCENT_OF_A_MS = 0.1
"""A millisecond of a second is a tenth of a percent."""

EXEMPT = frozenset(
    int(key)
    for key in (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    )
)
"""What brokers ask each other is not throttled, nor is authentication."""

_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


class _Client(NamedTuple):
    """The limits of one client."""

    produced: Limit | None
    fetched: Limit | None
    busy: Limit | None
    mutated: Limit | None


class ClientQuotas:
    def __init__(
        self,
        clock: Clock,
        windows: Windows,
        mutation_windows: Windows,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called after every change of quotas."""
        self._changed = changed
        self._clock = clock
        self._windows = windows
        self._mutation_windows = mutation_windows
        self.is_unlimited = True
        self.measures_time = False
        self._limits = QuotaLimits({})
        self._clients: dict[tuple[str, str], _Client] = {}
        self._rates: dict[tuple[str, Sharers], SampledRate] = {}
        self._buckets: dict[Sharers, TokenBucket] = {}
        self.throttled: dict[str, int] = {}
        """How many answers carried a throttle time, by the key of the quota."""

    @property
    def rates(self) -> Mapping[tuple[str, Sharers], float]:
        """What is measured, per second, by the quota's key and those who share it."""
        now_ms = self._clock.monotonic_ms()
        return {key: rate.per_second(now_ms) for key, rate in self._rates.items()}

    def use(self, limits: QuotaLimits) -> None:
        """Apply these limits from now on."""
        self._limits = limits
        self.is_unlimited = not limits.has_client_quotas
        self.measures_time = limits.has_request_quotas
        self._clients.clear()
        self._changed()

    def throttle_ms(self, usage: Usage) -> int:
        if usage.api_key in EXEMPT:
            return 0
        client = self._client(usage.principal, usage.client_id)
        now_ms = self._clock.monotonic_ms()
        throttle_ms = 0
        if usage.api_key == _PRODUCE and client.produced is not None:
            throttle_ms = self._count(
                PRODUCER_BYTE_RATE, client.produced, usage.request_bytes, now_ms
            )
        elif usage.api_key == _FETCH and client.fetched is not None:
            throttle_ms = self._count(
                CONSUMER_BYTE_RATE, client.fetched, usage.answer_bytes, now_ms
            )
        if client.busy is not None:
            percent = usage.busy_ms * PERCENT_OF_A_MS
            busy_ms = self._count(REQUEST_PERCENTAGE, client.busy, percent, now_ms)
            throttle_ms = max(throttle_ms, min(busy_ms, self._windows.sample_ms))
        return throttle_ms

    def forgive_answer(self, usage: Usage) -> None:
        limit = self._client(usage.principal, usage.client_id).fetched
        if limit is not None:
            rate = self._rate(CONSUMER_BYTE_RATE, limit)
            rate.record(-usage.answer_bytes, self._clock.monotonic_ms())

    def most_fetched(self, principal: Principal | None, client_id: str | None) -> float:
        limit = self._client(principal, client_id).fetched
        if limit is None:
            return float("inf")
        samples, sample_ms = self._windows
        return max(1.0, limit.value * (samples - 1) * sample_ms / 1000)

    def mutation_throttle_ms(
        self,
        principal: Principal | None,
        client_id: str | None,
        partitions: int,
        *,
        is_strict: bool,
    ) -> int:
        limit = self._client(principal, client_id).mutated
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        bucket = self._bucket(limit, now_ms)
        throttle_ms = bucket.throttle_ms(limit.value, now_ms)
        if not (is_strict and throttle_ms):
            bucket.take(partitions, limit.value, now_ms)
        if not is_strict:
            throttle_ms = bucket.throttle_ms(limit.value, now_ms)
        if throttle_ms:
            self._note(CONTROLLER_MUTATION_RATE)
        return throttle_ms

    def _bucket(self, limit: Limit, now_ms: float) -> TokenBucket:
        bucket = self._buckets.get(limit.sharers)
        if bucket is None:
            self._make_room(self._buckets, now_ms)
            bucket = self._buckets[limit.sharers] = TokenBucket(self._mutation_windows)
        return bucket

    def _count(self, key: str, limit: Limit, value: float, now_ms: float) -> int:
        rate = self._rate(key, limit)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms)
        if throttle_ms > 0:
            self._note(key)
        return throttle_ms

    def _note(self, key: str) -> None:
        self.throttled[key] = self.throttled.get(key, 0) + 1

    def _rate(self, key: str, limit: Limit) -> SampledRate:
        rate = self._rates.get((key, limit.sharers))
        if rate is None:
            self._make_room(self._rates, self._clock.monotonic_ms())
            rate = self._rates[key, limit.sharers] = SampledRate(self._windows)
        return rate

    def _client(self, principal: Principal | None, client_id: str | None) -> _Client:
        key = ((principal or ANONYMOUS).name, client_id or "")
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.clear()
            client = self._clients[key] = _Client(
                *(
                    self._limits.limit(*key, quota)
                    for quota in (
                        PRODUCER_BYTE_RATE,
                        CONSUMER_BYTE_RATE,
                        REQUEST_PERCENTAGE,
                        CONTROLLER_MUTATION_RATE,
                    )
                )
            )
        return client

    def _make_room(self, counted: dict[Any, Any], now_ms: float) -> None:
        if len(counted) >= MOST_CLIENTS:
            for key in [key for key, one in counted.items() if one.is_idle(now_ms)]:
                del counted[key]
        if len(counted) >= MOST_CLIENTS:
            counted.clear()
