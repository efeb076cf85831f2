"""Patterns are matched in a thread where there are many topics; meanwhile things change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from floodmark.metadata.image import TopicImage
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kit.group_bench import CLIENT, GroupBench, now, topic_image

TOPICS = 30
PATTERN = "t.*"


@pytest.fixture
async def bench() -> AsyncIterator[GroupBench]:
    bench = GroupBench()
    bench.set_topics(*(topic(number) for number in range(1, TOPICS + 1)))
    yield bench
    bench.service.close()


def topic(number: int) -> TopicImage:
    return topic_image(f"t{number}", 1, number)


def join(bench: GroupBench, pattern: str) -> Coroutine[Any, Any, Any]:
    answer = bench.service.consumer_group_heartbeat(
        CLIENT,
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        ),
    )
    assert isinstance(answer, Coroutine), "it was matched on the loop"
    return answer


def assigned(answer: ConsumerGroupHeartbeatResponse) -> set[int]:
    assert answer.assignment is not None
    return {topic.topic_id.int for topic in answer.assignment.topic_partitions}


async def test_the_answer_is_that_of_the_loop(bench: GroupBench) -> None:
    answer = await join(bench, PATTERN)
    assert answer.error_code == ErrorCode.NONE
    assert assigned(answer) == {*range(1, TOPICS + 1)}
    assert bench.group("g").regexes[PATTERN].topics == {f"t{n}" for n in range(1, TOPICS + 1)}


async def test_the_work_ends_before_the_wait_for_the_commit(bench: GroupBench) -> None:
    """It holds one of the few handler slots."""
    bench.log.hold = True
    pending = await join(bench, PATTERN)
    assert isinstance(pending, Promise)
    bench.log.commit_all()
    assert assigned(await pending) == {*range(1, TOPICS + 1)}


async def test_a_topic_that_comes_meanwhile_is_matched_too(bench: GroupBench) -> None:
    joining = asyncio.ensure_future(join(bench, PATTERN))
    await asyncio.sleep(0)
    bench.set_topics(*(topic(number) for number in range(1, TOPICS + 2)))
    assert assigned(await joining) == {*range(1, TOPICS + 2)}


async def test_a_pattern_that_cannot_be_read_is_refused(bench: GroupBench) -> None:
    answer = await join(bench, "(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_coordinator_that_moves_meanwhile_says_so(bench: GroupBench) -> None:
    joining = asyncio.ensure_future(join(bench, PATTERN))
    await asyncio.sleep(0)
    bench.service.unload(0)
    assert (await joining).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_heartbeat_without_news_is_answered_at_once(bench: GroupBench) -> None:
    joined = await join(bench, PATTERN)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch, topic_partitions=None
    )
    assert now(bench.service.consumer_group_heartbeat(CLIENT, beat)).error_code == ErrorCode.NONE
