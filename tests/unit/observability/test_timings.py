"""Request times, on a clock that stands still until moved."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from floodmark.network.request_channel import Response, Waiting
from floodmark.observability.timings import (
    BUCKETS_MS,
    KEPT_SAMPLES,
    PARTS,
    QUANTILES,
    ApiNumbers,
    RequestTimings,
    quantiles,
)
from floodmark.promise import Promise
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.api_keys import ApiKey

FETCH = int(ApiKey.FETCH)


class Connection:
    when_sent: Callable[[], None] | None = None

    def send(self) -> None:
        assert self.when_sent is not None
        when_sent, self.when_sent = self.when_sent, None
        when_sent()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def timings(clock: VirtualClock) -> RequestTimings:
    return RequestTimings(clock)


def spent(numbers: ApiNumbers) -> dict[str, float]:
    return {part: ms for part, ms in zip(PARTS, numbers.sums_ms, strict=True) if ms}


def test_an_answer_at_once_is_local_work(timings: RequestTimings, clock: VirtualClock) -> None:
    begin_ms = timings.now_ms()
    clock.advance(3)
    assert timings.timed(FETCH, begin_ms, b"answer", Connection()) == b"answer"
    numbers = timings.numbers()[FETCH]
    assert spent(numbers) == {"totaltimems": 3.0, "localtimems": 3.0}
    assert numbers.counts == (1, 1, 1, 1, 0)
    assert numbers.buckets[BUCKETS_MS.index(5.0)] == sum(numbers.buckets) == 1


def test_a_parked_request_waits_for_others(timings: RequestTimings, clock: VirtualClock) -> None:
    promise: Promise[Response] = Promise()
    begin_ms = timings.now_ms()
    clock.advance(1)
    parked = timings.timed(FETCH, begin_ms, promise, Connection())
    clock.advance(500)
    assert isinstance(parked, Promise)
    promise.set(b"answer")
    assert parked.now_or_later() == b"answer"
    assert spent(timings.numbers()[FETCH]) == {
        "totaltimems": 501.0,
        "localtimems": 1.0,
        "remotetimems": 500.0,
    }


async def test_work_waits_for_a_slot_and_then_counts_to_its_end(
    timings: RequestTimings, clock: VirtualClock
) -> None:
    async def work() -> bytes:
        clock.advance(20)
        return b"answer"

    timed: Any = timings.timed(FETCH, timings.now_ms(), work(), Connection())
    clock.advance(7)
    assert await asyncio.create_task(timed) == b"answer"
    assert spent(timings.numbers()[FETCH]) == {
        "totaltimems": 27.0,
        "requestqueuetimems": 7.0,
        "localtimems": 20.0,
    }


@pytest.mark.parametrize("is_promise", [True, False])
async def test_work_may_end_with_a_wait_for_others(
    timings: RequestTimings, clock: VirtualClock, is_promise: bool
) -> None:
    promise: Promise[Response] = Promise()

    async def wait() -> Response:
        return await promise

    async def work() -> Any:
        clock.advance(20)
        return promise if is_promise else Waiting(wait())

    timed: Any = timings.timed(FETCH, timings.now_ms(), work(), Connection())
    clock.advance(7)
    pending = await asyncio.create_task(timed)
    clock.advance(500)
    promise.set(b"answer")
    assert await pending == b"answer"
    assert spent(timings.numbers()[FETCH]) == {
        "totaltimems": 527.0,
        "requestqueuetimems": 7.0,
        "localtimems": 20.0,
        "remotetimems": 500.0,
    }


def test_sending_is_timed_until_the_socket_has_taken_the_answer(
    timings: RequestTimings, clock: VirtualClock
) -> None:
    connection = Connection()
    timings.timed(FETCH, timings.now_ms(), b"one", connection)
    clock.advance(4)
    timings.timed(FETCH, timings.now_ms(), b"two", connection)
    connection.send()
    assert spent(timings.numbers()[FETCH]) == {"responsesendtimems": 4.0}


def test_a_request_without_an_answer_sends_nothing(timings: RequestTimings) -> None:
    connection = Connection()
    assert timings.timed(FETCH, timings.now_ms(), None, connection) is None
    assert connection.when_sent is None
    assert timings.numbers()[FETCH].counts[0] == 1


def test_a_sampled_request_counts_for_those_that_were_not(clock: VirtualClock) -> None:
    timings = RequestTimings(clock, {FETCH: 16})
    begin_ms = timings.now_ms()
    clock.advance(3)
    timings.timed(FETCH, begin_ms, b"answer", Connection())
    numbers = timings.numbers()[FETCH]
    assert numbers.counts[0] == sum(numbers.buckets) == 16
    assert numbers.sums_ms[0] == 48.0


def test_quantiles_are_of_the_last_samples(timings: RequestTimings, clock: VirtualClock) -> None:
    for elapsed_ms in [100, *[1] * KEPT_SAMPLES]:
        begin_ms = timings.now_ms()
        clock.advance(elapsed_ms)
        timings.timed(FETCH, begin_ms, b"answer", Connection())
    assert quantiles(timings.numbers()[FETCH].samples_ms[0]) == [1.0] * len(QUANTILES)
    assert quantiles([]) == []
