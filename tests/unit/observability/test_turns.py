"""A scrape of many partitions and groups lets the loop serve clients in between."""

import asyncio
from typing import Any, cast

from floodmark.observability.collecting import collect
from floodmark.observability.readings import SLICE_MS
from floodmark.observability.sources import Sources
from floodmark.testing.broker_thread import BrokerThread
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fuzz_kit.raw_client import RawClient

PARTITIONS = 60
GROUPS = 20


class TickingClock(VirtualClock):
    """Every look at it takes a while."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


def commit_request(group: str, topic: str) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0)
        for index in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, topics=topics)


def test_the_loop_has_turns_during_a_scrape(floodmark: BrokerThread) -> None:
    topic = floodmark.create_topic("wide", PARTITIONS)
    floodmark.call(floodmark.broker.coordination.groups.log.ensure_topic())
    with RawClient(floodmark.bootstrap_servers) as client:
        for number in range(GROUPS):
            answer = client.ask(commit_request(f"g{number}", topic), 8)
            assert {one.error_code for one in answer.topics[0].partitions} == {0}

    async def turns_of_others() -> int:
        sources = Sources(floodmark.broker)
        sources.broker = cast(Any, _WithClock(floodmark.broker, TickingClock()))
        scrape = asyncio.create_task(collect(sources))
        turns = 0
        while not scrape.done():
            await asyncio.sleep(0)
            turns += 1
        readings = await scrape
        assert len(readings.values["kafka_consumergroup_lag"]) == PARTITIONS * GROUPS
        return turns

    # A look at the clock three times for each partition, and for each topic of a group.
    assert floodmark.call(turns_of_others()) >= (3 * PARTITIONS + GROUPS) / SLICE_MS


class _WithClock:
    def __init__(self, broker: object, clock: TickingClock) -> None:
        self._broker = broker
        self.clock = clock

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)
