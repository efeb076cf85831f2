"""Quotas of users and client ids: measures requests and computes throttle times.

Created by `broker.quotas`, which calls `use` on every quota change. Looks up a client's limits, and
who shares them, once per change. Measured rates survive a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from floodmark.apis.quotas import Measured, Usage
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
    short_id,
)
from floodmark.security.rates import (
    PacedRate,
    SampledMean,
    SampledRate,
    TokenBucket,
    Windows,
    make_room,
)
from floodmark.wire.api_keys import ApiKey

MOST_CLIENTS = 10_000
"""Clients choose their ids. Above this, idle entries are dropped first, then all."""

PERCENT_OF_A_MS = 0.1
"""One millisecond per second is a tenth of a percent."""

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
"""Requests between brokers and authentication are not throttled."""

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
        """`changed` is called after every quota change."""
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
        self._throttles: dict[tuple[str, Sharers], SampledMean] = {}

    def measured(self) -> Sequence[Measured]:
        now_ms = self._clock.monotonic_ms()
        keys = dict.fromkeys((*self._rates, *self._throttles))
        return [
            Measured(key, *sharers, self._rate_of(key, sharers), self._mean_of(key, sharers))
            for key, sharers in keys
            if not self._is_idle(key, sharers, now_ms)
        ]

    def _rate_of(self, key: str, sharers: Sharers) -> float:
        rate = self._rates.get((key, sharers))
        return 0.0 if rate is None else rate.per_second(self._clock.monotonic_ms())

    def _mean_of(self, key: str, sharers: Sharers) -> float:
        throttles = self._throttles.get((key, sharers))
        return 0.0 if throttles is None else throttles.mean(self._clock.monotonic_ms())

    def _is_idle(self, key: str, sharers: Sharers, now_ms: float) -> bool:
        counted = (self._rates.get((key, sharers)), self._throttles.get((key, sharers)))
        return all(one is None or one.is_idle(now_ms) for one in counted)

    def use(self, limits: QuotaLimits) -> None:
        """Applies these limits from now on."""
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
            self._note(CONTROLLER_MUTATION_RATE, limit.sharers, throttle_ms, now_ms)
        return throttle_ms

    def _bucket(self, limit: Limit, now_ms: float) -> TokenBucket:
        bucket = self._buckets.get(limit.sharers)
        if bucket is None:
            make_room(self._buckets, MOST_CLIENTS, now_ms)
            bucket = self._buckets[limit.sharers] = TokenBucket(self._mutation_windows)
        return bucket

    def _count(self, key: str, limit: Limit, value: float, now_ms: float) -> int:
        rate = self._rate(key, limit)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms)
        if throttle_ms > 0:
            self._note(key, limit.sharers, throttle_ms, now_ms)
        return throttle_ms

    def _note(self, key: str, sharers: Sharers, throttle_ms: int, now_ms: float) -> None:
        throttles = self._throttles.get((key, sharers))
        if throttles is None:
            make_room(self._throttles, MOST_CLIENTS, now_ms)
            throttles = self._throttles[key, sharers] = SampledMean(self._windows)
        throttles.record(throttle_ms, now_ms)

    def _rate(self, key: str, limit: Limit) -> SampledRate:
        rate = self._rates.get((key, limit.sharers))
        if rate is None:
            make_room(self._rates, MOST_CLIENTS, self._clock.monotonic_ms())
            # Throttle times for CPU time are capped, so the excess must be forgotten.
            kind = SampledRate if key == REQUEST_PERCENTAGE else PacedRate
            rate = self._rates[key, limit.sharers] = kind(self._windows)
        return rate

    def _client(self, principal: Principal | None, client_id: str | None) -> _Client:
        user, client_id = (principal or ANONYMOUS).name, client_id or ""
        key = (user, short_id(client_id))
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.clear()
            client = self._clients[key] = _Client(
                *(
                    self._limits.limit(user, client_id, quota)
                    for quota in (
                        PRODUCER_BYTE_RATE,
                        CONSUMER_BYTE_RATE,
                        REQUEST_PERCENTAGE,
                        CONTROLLER_MUTATION_RATE,
                    )
                )
            )
        return client
