"""Measures rates, and computes how long to wait until they drop to a limit. PURE.

`SampledRate` measures byte rates, request times and connections like Kafka: with a ring of samples.
`TokenBucket` measures topic changes (KIP-599), which come in bursts.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

K = TypeVar("K")

MAX_THROTTLE_MS = 2**31 - 1
"""The longest wait that fits into a response. A client that sends megabytes under a quota of one
byte per second would exceed it."""


class Windows(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds` each."""

    samples: int = 11
    sample_ms: int = 1000

    @property
    def all_ms(self) -> int:
        return self.samples * self.sample_ms


class _Measure(Protocol):
    def is_idle(self, now_ms: float) -> bool: ...


M = TypeVar("M", bound=_Measure)


def make_room(measures: dict[K, M], most: int, now_ms: float) -> None:
    """Keeps the number of measured clients below `most`: drops idle ones first, then all."""
    if len(measures) >= most:
        for key in [key for key, one in measures.items() if one.is_idle(now_ms)]:
            del measures[key]
    if len(measures) >= most:
        measures.clear()


def _time_ms(amount: float, limit: float) -> float:
    """How long this amount takes at `limit` per second. Kafka 3.9 also stores limits of 0."""
    return amount * 1000 / limit if limit > 0 else math.inf


def _throttle_ms(wait_ms: float) -> int:
    return round(min(max(0.0, wait_ms), MAX_THROTTLE_MS))


@dataclass(slots=True)
class _Sample:
    start_ms: float
    last_ms: float
    total: float = 0.0


class SampledRate:
    """Counts per second.

    The measured window starts with its oldest sample and spans at least all samples but one, so
    that a first burst does not count as a high rate.
    """

    __slots__ = ("_samples", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()
        self._total = 0.0

    def record(self, value: float, now_ms: float) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.sample_ms:
            self._purge(now_ms)
            samples.append(_Sample(now_ms, now_ms))
        samples[-1].total += value
        samples[-1].last_ms = now_ms
        self._total += value

    def per_second(self, now_ms: float) -> float:
        window_ms = self._window_ms(now_ms)
        return self._total * 1000 / window_ms

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """How long to pause until the rate is down to `limit`; 0 if it is not above.

        The same as Kafka's, once the window has all its samples. Before that, Kafka's is too short:
        the window it divides by does not grow yet, so clients got up to a fifth above their quota
        in a minute.
        """
        if self._total * 1000 <= limit * self._window_ms(now_ms):
            return 0
        elapsed_ms = now_ms - self._samples[0].start_ms
        return _throttle_ms(_time_ms(self._total, limit) - elapsed_ms)

    def is_idle(self, now_ms: float) -> bool:
        """Whether all recorded samples have expired."""
        return not self._samples or now_ms - self._samples[-1].last_ms >= self._windows.all_ms

    def _window_ms(self, now_ms: float) -> float:
        self._purge(now_ms)
        samples, sample_ms = self._windows
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0.0
        missing = samples - 1 - int(elapsed_ms / sample_ms)
        if missing > 0:
            elapsed_ms += missing * sample_ms
        return max(elapsed_ms, 1.0)

    def _purge(self, now_ms: float) -> None:
        samples, oldest_ms = self._samples, now_ms - self._windows.all_ms
        while samples and samples[0].last_ms <= oldest_ms:
            self._total -= samples.popleft().total
        if not samples:
            # Also clears rounding errors.
            self._total = 0.0


class PacedRate(SampledRate):
    """For bytes. A client that exceeds the limit once is paced from then on, until it has been
    silent for all windows: each byte then takes its share of time.

    Without pacing, as in Kafka, a client uses the allowance of all windows at once, waits, and does
    so again when its burst has expired: five or six bursts in a minute.
    """

    __slots__ = ("_limit", "_paid_until_ms", "_unpaid")

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows)
        self._limit = 0.0
        self._paid_until_ms: float | None = None
        self._unpaid = 0.0

    def record(self, value: float, now_ms: float) -> None:
        super().record(value, now_ms)
        self._unpaid += value

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        unpaid, self._unpaid = self._unpaid, 0.0
        if limit > self._limit:
            # As in Kafka, a raised quota counts at once: forget the wait that the old one demanded.
            self._paid_until_ms = None
        self._limit = limit
        paid_until_ms = self._paid_until_ms
        if paid_until_ms is not None and now_ms - paid_until_ms < self._windows.all_ms:
            # Unused time is kept for one sample, because clients are never quite punctual.
            begin_ms = max(paid_until_ms, now_ms - self._windows.sample_ms)
            self._paid_until_ms = begin_ms + _time_ms(unpaid, limit)
            return _throttle_ms(self._paid_until_ms - now_ms)
        wait_ms = super().throttle_ms(limit, now_ms)
        self._paid_until_ms = now_ms + wait_ms if wait_ms > 0 else None
        return wait_ms

    def is_idle(self, now_ms: float) -> bool:
        paid_until_ms = self._paid_until_ms
        owes = paid_until_ms is not None and now_ms - paid_until_ms < self._windows.all_ms
        return not owes and super().is_idle(now_ms)


class SampledMean:
    """The mean of the recorded values, over the same ring of samples."""

    __slots__ = ("_counts", "_values")

    def __init__(self, windows: Windows) -> None:
        self._values = SampledRate(windows)
        self._counts = SampledRate(windows)

    def record(self, value: float, now_ms: float) -> None:
        self._values.record(value, now_ms)
        self._counts.record(1.0, now_ms)

    def mean(self, now_ms: float) -> float:
        count = self._counts.per_second(now_ms)
        return self._values.per_second(now_ms) / count if count else 0.0

    def is_idle(self, now_ms: float) -> bool:
        return self._counts.is_idle(now_ms)


class TokenBucket:
    """Tokens arrive at a rate, and accumulate for the length of all windows."""

    __slots__ = ("_last_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._last_ms = 0.0

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """How long until the bucket is no longer in debt."""
        tokens = self._refilled(limit, now_ms)
        return _throttle_ms(_time_ms(-tokens, limit)) if tokens < 0 else 0

    def take(self, count: float, limit: float, now_ms: float) -> None:
        """May leave a debt, for which the next caller waits."""
        self._tokens = self._refilled(limit, now_ms) - count

    def is_idle(self, now_ms: float) -> bool:
        return now_ms - self._last_ms >= self._windows.all_ms and (self._tokens or 0.0) >= 0

    def _refilled(self, limit: float, now_ms: float) -> float:
        burst = limit * self._windows.all_ms / 1000
        if self._tokens is None:
            self._tokens = burst
        elapsed_ms, self._last_ms = now_ms - self._last_ms, now_ms
        self._tokens = min(burst, self._tokens + limit * elapsed_ms / 1000)
        return self._tokens
