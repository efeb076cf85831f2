"""How long requests take, from a sample of them: Kafka's `TotalTimeMs`.

`http.serve_metrics` plugs a `RequestTimings` into the dispatcher; without a metrics port requests
are not timed at all. One request in `SAMPLE_EVERY` is timed, from its dispatch until its answer is
encoded (a long poll counts with its wait, as in Kafka); the last `KEPT_SAMPLES` of each API make
the quantiles.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from floodmark.clock import Clock
from floodmark.promise import Promise
from floodmark.wire.api_keys import ApiKey

SAMPLE_EVERY = 8
"""Timing costs about a microsecond: an eighth of that disappears in the cost of a request."""

KEPT_SAMPLES = 512
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that Kafka's histograms report."""


class RequestTimings:
    """A `RequestTimer` of `apis.dispatch`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_sample = 1
        self._samples_ms: dict[ApiKey, deque[float]] = {}

    def is_due(self) -> bool:
        self._until_sample -= 1
        if self._until_sample:
            return False
        self._until_sample = SAMPLE_EVERY
        return True

    def time(self, api_key: ApiKey, handle: Callable[[], Any]) -> Any:
        """Runs a handler; what it returns is passed on, or wrapped when the answer comes later."""
        begin_ms = self._clock.monotonic_ms()
        result = handle()
        if isinstance(result, Promise):
            return result.map(lambda answer: self._passed(api_key, begin_ms, answer))
        if isinstance(result, asyncio.Future):
            result.add_done_callback(lambda _: self._record(api_key, begin_ms))
        elif asyncio.iscoroutine(result):
            return self._finish(api_key, begin_ms, result)
        else:
            self._record(api_key, begin_ms)
        return result

    def quantiles_ms(self) -> Mapping[ApiKey, tuple[float, ...]]:
        """The values at `QUANTILES`, of each API that has been sampled."""
        return {key: _quantiles(sorted(kept)) for key, kept in self._samples_ms.items()}

    def _passed(self, api_key: ApiKey, begin_ms: float, answer: Any) -> Any:
        self._record(api_key, begin_ms)
        return answer

    async def _finish(
        self, api_key: ApiKey, begin_ms: float, work: Coroutine[Any, Any, Any]
    ) -> Any:
        try:
            return await work
        finally:
            self._record(api_key, begin_ms)

    def _record(self, api_key: ApiKey, begin_ms: float) -> None:
        samples = self._samples_ms.get(api_key)
        if samples is None:
            samples = self._samples_ms[api_key] = deque(maxlen=KEPT_SAMPLES)
        samples.append(self._clock.monotonic_ms() - begin_ms)


def _quantiles(ordered: list[float]) -> tuple[float, ...]:
    last = len(ordered) - 1
    return tuple(ordered[round(quantile * last)] for quantile in QUANTILES)
