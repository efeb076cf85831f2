"""A process that stood still takes no records before the store has confirmed its session."""

from __future__ import annotations

import asyncio

import pytest

from floodmark.broker.session_doubt import SessionDoubt
from floodmark.metadata.store import StoreUnavailable
from floodmark.testing.virtual_clock import VirtualClock
from kit.waiting import eventually


class Registry:
    def __init__(self) -> None:
        self.answers = []
        self.asked = 0

    async def is_registered(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def doubt():
    clock, registry = VirtualClock(), Registry()
    doubt = SessionDoubt(6000, clock, registry.is_registered)
    yield doubt, clock, registry
    await doubt.close()


async def test_a_broker_that_runs_has_no_doubt(doubt):
    in_doubt, clock, registry = doubt
    for _ in range(10):
        clock.advance(2500)
        assert not in_doubt()
    assert registry.asked == 0


async def test_after_a_gap_nothing_is_taken_until_the_store_has_answered(doubt):
    in_doubt, clock, registry = doubt
    registry.answers = [StoreUnavailable("/", "no answer"), False, True]
    clock.advance(3500)
    assert in_doubt()
    assert in_doubt()
    await eventually(lambda: not in_doubt())
    assert registry.asked == 3


async def test_a_gap_is_noticed_though_nothing_was_appended_for_long(doubt):
    in_doubt, clock, registry = doubt
    in_doubt.start()
    clock.advance(10_000)
    assert in_doubt()
    await eventually(lambda: not in_doubt())
    assert registry.asked == 1
