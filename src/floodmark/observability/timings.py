"""Measures how long requests take, and in which part: Kafka's `TotalTimeMs` and its parts.

`http.serve_metrics` plugs a `RequestTimings` into the dispatcher. Without a metrics port, requests
are not timed. A request's time has up to four parts:

- queue: until a handler slot is free; only requests that continue after their first step need one
- local: the work itself, including decoding and encoding
- remote: waiting for data, followers, a flush or other group members
- send: from the response until the peer's socket has accepted it

The total is the sum of the first three. One produce or fetch in `SAMPLE_EVERY` is timed and counts
as that many, so that rates and averages are right. All other requests are timed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from floodmark.clock import Clock
from floodmark.network.request_channel import Outcome, Response, Throttled, Waiting, Work
from floodmark.promise import Promise

BUCKETS_MS = (
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
    *(1000.0, 2500.0, 5000.0, 10000.0),
)
"""The upper bounds of the histogram of total times: from an append to the longest polls."""

KEPT_SAMPLES = 512
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles that Kafka's histograms report."""

PARTS = ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsesendtimems")


class Sender(Protocol):
    """A connection, as needed to time its responses."""

    when_sent: Callable[[], None] | None


class ApiNumbers(NamedTuple):
    """A copy of one API's measurements."""

    buckets: Sequence[int]
    counts: Sequence[int]
    sums_ms: Sequence[float]
    samples_ms: Sequence[Sequence[float]]


class _ApiTimes:
    """The lists have an entry for each of `PARTS`."""

    __slots__ = ("buckets", "counts", "samples_ms", "sums_ms", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self.counts = [0] * len(PARTS)
        self.sums_ms = [0.0] * len(PARTS)
        self.samples_ms: list[deque[float]] = [deque(maxlen=KEPT_SAMPLES) for _ in PARTS]

    def note(self, part: int, elapsed_ms: float) -> None:
        self.counts[part] += self.weight
        self.sums_ms[part] += elapsed_ms * self.weight
        self.samples_ms[part].append(elapsed_ms)


class RequestTimings:
    """A `RequestTimer` of `apis.dispatch`."""

    def __init__(self, clock: Clock, weights: Mapping[int, int] | None = None) -> None:
        """`weights` maps an API key to how many requests each timed one counts as; default 1."""
        self._weights = weights or {}
        self._apis: dict[int, _ApiTimes] = {}
        self.now_ms = clock.monotonic_ms

    def timed(self, api_key: int, begin_ms: float, outcome: Outcome, connection: Sender) -> Outcome:
        """Records the time of a completed request, or waits for the end of a pending one."""
        now_ms = self.now_ms()
        return self._timed(api_key, connection, outcome, now_ms - begin_ms, 0.0, now_ms)

    def _timed(
        self,
        api_key: int,
        connection: Sender,
        outcome: Outcome,
        local_ms: float,
        queue_ms: float,
        pending_since_ms: float,
    ) -> Outcome:
        if outcome is None or isinstance(outcome, (bytes, list, Throttled)):
            return self._answered(
                api_key, connection, outcome, local_ms=local_ms, queue_ms=queue_ms
            )
        if isinstance(outcome, Promise | Waiting):
            kept = partial(self._kept, api_key, connection, local_ms, queue_ms, pending_since_ms)
            if isinstance(outcome, Promise):
                return outcome.map(kept)
            return Waiting(_converted(outcome, kept))
        return self._work(api_key, connection, outcome, local_ms, queue_ms, pending_since_ms)

    def numbers(self) -> dict[int, ApiNumbers]:
        return {
            api_key: ApiNumbers(
                tuple(times.buckets),
                tuple(times.counts),
                tuple(times.sums_ms),
                [tuple(samples) for samples in times.samples_ms],
            )
            for api_key, times in self._apis.items()
        }

    def _kept(
        self,
        api_key: int,
        connection: Sender,
        local_ms: float,
        queue_ms: float,
        parked_ms: float,
        answer: Response,
    ) -> Response:
        return self._answered(
            api_key,
            connection,
            answer,
            local_ms=local_ms,
            remote_ms=self.now_ms() - parked_ms,
            queue_ms=queue_ms,
        )

    async def _work(
        self,
        api_key: int,
        connection: Sender,
        work: Work,
        local_ms: float,
        queue_ms: float,
        queued_ms: float,
    ) -> Outcome:
        started_ms = self.now_ms()
        outcome = await work
        ended_ms = self.now_ms()
        local_ms += ended_ms - started_ms
        queue_ms += started_ms - queued_ms
        return self._timed(api_key, connection, outcome, local_ms, queue_ms, ended_ms)

    def _answered(
        self,
        api_key: int,
        connection: Sender,
        answer: Response,
        *,
        local_ms: float,
        remote_ms: float = 0.0,
        queue_ms: float = 0.0,
    ) -> Response:
        times = self._apis.get(api_key)
        if times is None:
            times = self._apis[api_key] = _ApiTimes(self._weights.get(api_key, 1))
        total_ms = queue_ms + local_ms + remote_ms
        times.buckets[bisect_left(BUCKETS_MS, total_ms)] += times.weight
        for part, elapsed_ms in enumerate((total_ms, queue_ms, local_ms, remote_ms)):
            times.note(part, elapsed_ms)
        if answer is not None and connection.when_sent is None:
            # Responses sent together are measured by the first.
            connection.when_sent = partial(self._sent, times, self.now_ms())
        return answer

    def _sent(self, times: _ApiTimes, answered_ms: float) -> None:
        times.note(len(PARTS) - 1, self.now_ms() - answered_ms)


async def _converted(
    waiting: Waiting[Response], convert: Callable[[Response], Response]
) -> Response:
    return convert(await waiting)


def quantiles(samples: Sequence[float]) -> list[float]:
    """The values at `QUANTILES`. Empty without samples."""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return [ordered[round(quantile * last)] for quantile in QUANTILES] if ordered else []
