"""Sampled request times, on a clock that stands still until moved."""

import asyncio

import pytest

from floodmark.observability.timings import KEPT_SAMPLES, SAMPLE_EVERY, RequestTimings
from floodmark.promise import Promise
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.api_keys import ApiKey


def test_one_request_in_a_few_is_due() -> None:
    timings = RequestTimings(VirtualClock())
    assert [timings.is_due() for _ in range(2 * SAMPLE_EVERY)].count(True) == 2


def test_a_timed_request_is_answered() -> None:
    clock = VirtualClock()
    timings = RequestTimings(clock)

    def handle() -> str:
        clock.advance(3)
        return "answer"

    assert timings.time(ApiKey.METADATA, handle) == "answer"
    assert set(timings.quantiles_ms()[ApiKey.METADATA]) == {3.0}


async def test_a_parked_request_counts_with_its_wait() -> None:
    clock = VirtualClock()
    timings = RequestTimings(clock)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    assert timings.time(ApiKey.FETCH, lambda: future) is future
    clock.advance(500)
    future.set_result("answer")
    await asyncio.sleep(0)
    assert timings.quantiles_ms()[ApiKey.FETCH][0] == 500.0


def test_a_promised_answer_counts_when_it_comes() -> None:
    clock = VirtualClock()
    timings = RequestTimings(clock)
    promise: Promise[str] = Promise()
    passed: list[str] = []
    timings.time(ApiKey.PRODUCE, lambda: promise).then(passed.append, pytest.fail)
    clock.advance(7)
    promise.set("answer")
    assert passed == ["answer"]
    assert timings.quantiles_ms()[ApiKey.PRODUCE][0] == 7.0


async def test_a_request_that_is_worked_on_counts_to_its_end() -> None:
    clock = VirtualClock()
    timings = RequestTimings(clock)

    async def work() -> str:
        clock.advance(20)
        return "answer"

    assert await timings.time(ApiKey.CREATE_TOPICS, work) == "answer"
    assert timings.quantiles_ms()[ApiKey.CREATE_TOPICS][0] == 20.0


def test_only_the_last_samples_are_kept() -> None:
    clock = VirtualClock()
    timings = RequestTimings(clock)
    for elapsed_ms in [100, *[1] * KEPT_SAMPLES]:
        timings.time(ApiKey.FETCH, lambda elapsed_ms=elapsed_ms: clock.advance(elapsed_ms))
    assert set(timings.quantiles_ms()[ApiKey.FETCH]) == {1.0}
