"""A promise calls back at once, and shields who keeps it."""

import asyncio

import pytest

from floodmark.promise import Promise


def test_who_waits_is_called_inside_set():
    got = []
    promise = Promise()
    promise.then(got.append, got.append)
    promise.set(5)
    assert got == [5]


def test_who_comes_late_is_called_at_once():
    got = []
    promise = Promise()
    promise.set(5)
    promise.then(got.append, got.append)
    assert got == [5]


def test_only_the_first_value_counts():
    got = []
    promise = Promise()
    promise.then(got.append, got.append)
    promise.set(1)
    promise.set(2)
    promise.fail(ValueError())
    assert got == [1]


def test_a_conversion_that_fails_does_not_hurt_who_keeps_the_promise():
    problems = []
    promise = Promise()
    promise.map(lambda value: 1 / value).then(lambda _: None, problems.append)
    promise.set(0)
    assert isinstance(problems[0], ZeroDivisionError)


def test_an_abandoned_promise_tells_its_maker_and_calls_nobody():
    told = []
    got = []
    promise = Promise()
    promise.on_abandoned = lambda: told.append("forget it")
    mapped = promise.map(lambda value: value)
    mapped.then(got.append, got.append)
    mapped.abandon()
    promise.set(1)
    assert (told, got) == (["forget it"], [])


async def test_a_promise_can_be_awaited():
    promise = Promise()
    asyncio.get_running_loop().call_soon(promise.set, 7)
    assert await promise == 7
    broken = Promise()
    broken.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await broken


async def test_a_cancelled_waiter_is_not_in_the_way_of_who_keeps_the_promise():
    told = []
    promise = Promise()
    promise.on_abandoned = lambda: told.append("forget it")
    future = promise.future()
    future.cancel()
    promise.set(1)
    await asyncio.sleep(0)
    assert future.cancelled()
