"""How fast something happens, and how long to wait until it is slow enough. PURE.

`SampledRate` is Kafka's measure of byte rates, request times and connections: a ring of samples.
`TokenBucket` is its measure of topic changes (KIP-599), which come in bursts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple


class Windows(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds` each."""

    samples: int = 11
    sample_ms: int = 1000

    @property
    def all_ms(self) -> int:
        return self.samples * self.sample_ms


@dataclass(slots=True)
class _Sample:
    start_ms: float
    last_ms: float
    total: float = 0.0


class SampledRate:
    """Counts per second. The window that is measured begins with the oldest sample in it, and is at
    least all samples but one, so that a first burst does not count as a high rate."""

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
        """How long to be silent until the rate is down to `limit`; 0 if it is not above.

        Kafka's wait, once the window has all its samples. Before that Kafka's is too short: the
        window that it divides by does not grow yet, so clients got up to a fifth above their quota
        in a minute.
        """
        if self._total * 1000 <= limit * self._window_ms(now_ms):
            return 0
        return round(self._total * 1000 / limit - (now_ms - self._samples[0].start_ms))

    def is_idle(self, now_ms: float) -> bool:
        """Whether all that was recorded is forgotten by now."""
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
            # Not even rounding errors.
            self._total = 0.0


class TokenBucket:
    """Tokens come at a rate, and are kept for as long as all windows."""

    __slots__ = ("_last_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._last_ms = 0.0

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """How long to wait until the bucket is not in debt any more."""
        tokens = self._refilled(limit, now_ms)
        return round(-tokens * 1000 / limit) if tokens < 0 else 0

    def take(self, count: float, limit: float, now_ms: float) -> None:
        """May leave a debt: whoever comes next waits for it to be paid."""
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
