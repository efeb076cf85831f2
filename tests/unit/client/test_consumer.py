"""The consumer's positions and what it does when a fetch is refused."""

import asyncio
from typing import Any

import pytest

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer import prefetcher
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import ClientClosed, KafkaError
from floodmark.client.settings import ConsumerSettings
from floodmark.records.record import Record, encode_batch
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
FIRST_TIMESTAMP = 1_000


class Leader:
    """Partitions with an offset range; record n of a partition has the time 1000 + n."""

    def __init__(self, scripted: Any) -> None:
        scripted.topics["t"] = 2
        self.start = {0: 0, 1: 0}
        self.end = {0: 5, 1: 0}
        self.errors: list[ErrorCode] = []
        # Partitions whose batches arrive with a flipped bit.
        self.broken: set[int] = set()
        # Partitions that nobody leads at the moment.
        self.leaderless: set[int] = set()
        scripted.on[ApiKey.FETCH] = self.fetch
        scripted.on[ApiKey.LIST_OFFSETS] = self.list_offsets

    def fetch(self, request: Any, _version: int) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[self._read(p.partition, p.fetch_offset) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _read(self, index: int, offset: int) -> PartitionData:
        if self.errors:
            return PartitionData(partition_index=index, error_code=self.errors.pop(0))
        if not self.start[index] <= offset <= self.end[index]:
            return PartitionData(partition_index=index, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        records = [
            Record(0, FIRST_TIMESTAMP + n, None, b"%d" % n, [])
            for n in range(offset, self.end[index])
        ]
        data = encode_batch(records, base_offset=offset) if records else bytearray()
        if index in self.broken:
            data[-1] ^= 1
        return PartitionData(
            partition_index=index,
            high_watermark=self.end[index],
            last_stable_offset=self.end[index],
            records=bytes(data),
        )

    def list_offsets(self, request: Any, _version: int) -> ListOffsetsResponse:
        (topic,) = request.topics
        answers = []
        for asked in topic.partitions:
            index = asked.partition_index
            if index in self.leaderless:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                answers.append(ListOffsetsPartitionResponse(partition_index=index, error_code=code))
                continue
            offset = {-1: self.end[index], -2: self.start[index]}.get(asked.timestamp)
            if offset is None:
                offset = max(0, asked.timestamp - FIRST_TIMESTAMP)
                offset = offset if offset < self.end[index] else -1
            answers.append(ListOffsetsPartitionResponse(partition_index=index, offset=offset))
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answers)]
        )


@pytest.fixture
def leader(scripted: Any) -> Leader:
    return Leader(scripted)


def quick(**settings: Any) -> ConsumerSettings:
    return ConsumerSettings(**{"retry_backoff_ms": 1, "fetch_max_wait_ms": 10, **settings})


async def offsets(consumer: Consumer) -> list[int]:
    return [record.offset for record in (await consumer.poll(30_000)).get(T0, [])]


async def test_the_reset_policy_gives_the_first_position(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0, T1])
        assert await offsets(consumer) == [0, 1, 2, 3, 4]
        assert (await consumer.position(T0), consumer.lag(T0)) == (5, 0)
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        assert await consumer.position(T0) == 5


async def test_without_a_reset_policy_a_position_is_needed(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="none")) as consumer:
        await consumer.assign([T0])
        with pytest.raises(KafkaError, match="seek first"):
            await consumer.poll(30_000)
        consumer.seek(T0, 3)
        assert await offsets(consumer) == [3, 4]


async def test_seeking_by_time_finds_the_first_record_at_or_after_it(
    scripted, leader: Leader
) -> None:
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_timestamp(FIRST_TIMESTAMP + 2)
        assert await offsets(consumer) == [2, 3, 4]
        consumer.seek_to_timestamp(FIRST_TIMESTAMP + 99)
        assert await consumer.position(T0) == 5


async def test_an_offset_that_retention_removed_is_reset(scripted, leader: Leader) -> None:
    leader.start[0] = 3
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        consumer.seek(T0, 1)
        assert await offsets(consumer) == [3, 4]


async def test_an_offset_out_of_range_is_an_error_without_a_reset_policy(
    scripted, leader: Leader
) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="none")) as consumer:
        await consumer.assign([T0])
        consumer.seek(T0, 99)
        with pytest.raises(KafkaError, match="offset 99 of t-0 is out of range"):
            await consumer.poll(30_000)


async def test_refusals_that_pass_are_tried_again(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH]
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_beginning()
        assert await offsets(consumer) == [0, 1, 2, 3, 4]


async def test_refusals_that_do_not_pass_are_raised(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_beginning()
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(30_000)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_lost_connection_is_made_anew(scripted, leader: Leader) -> None:
    answers = iter([scripted.hang_up])
    scripted.on[ApiKey.FETCH] = lambda *a: next(answers, None) or leader.fetch(*a)
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_beginning()
        assert await offsets(consumer) == [0, 1, 2, 3, 4]


async def test_paused_partitions_give_nothing_and_lose_nothing(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_beginning()
        consumer.pause(T0)
        assert await consumer.poll(20) == {}
        consumer.resume(T0)
        assert await offsets(consumer) == [0, 1, 2, 3, 4]


async def test_a_poll_gives_at_most_max_records_and_no_partition_starves(
    scripted, leader: Leader
) -> None:
    leader.end = {0: 1_000, 1: 1_000}
    async with Consumer(scripted.address, quick(max_poll_records=10)) as consumer:
        await consumer.assign([T0, T1])
        consumer.seek_to_beginning()
        seen = {T0: 0, T1: 0}
        for _ in range(10):
            for partition, records in (await consumer.poll(30_000)).items():
                assert len(records) <= 10
                seen[partition] += len(records)
    assert seen == {T0: 50, T1: 50}


async def test_a_partition_that_does_not_exist_cannot_be_assigned(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick()) as consumer:
        with pytest.raises(KafkaError, match="t-7 does not exist"):
            await consumer.assign([TopicPartition("t", 7)])
        with pytest.raises(ValueError, match="not assigned"):
            consumer.seek(T0, 1)


async def test_records_can_be_iterated_without_end(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        seen = []
        async for record in consumer:
            seen.append((record.topic, record.partition, record.offset, record.value))
            if len(seen) == 5:
                break
    assert seen == [("t", 0, n, b"%d" % n) for n in range(5)]


async def test_an_iteration_that_was_left_is_taken_up_again_without_a_gap(
    scripted, leader: Leader
) -> None:
    leader.end[1] = 3
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0, T1])
        seen: dict[int, list[int]] = {0: [], 1: []}
        while sum(map(len, seen.values())) < 8:
            async for record in consumer:
                seen[record.partition].append(record.offset)
                break
        assert seen == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2]}


async def test_position_and_lag_follow_an_iteration(scripted, leader: Leader) -> None:
    """The rest of what a poll got is not read yet: the next poll returns it again."""
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        async for record in consumer:
            assert await consumer.position(T0) == record.offset + 1
            assert consumer.lag(T0) == 4 - record.offset
            if record.offset == 4:
                break


async def test_a_poll_after_an_iteration_gives_what_it_left(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        async for record in consumer:
            if record.offset == 1:
                break
        assert await offsets(consumer) == [2, 3, 4]


async def test_a_seek_inside_an_iteration_counts_at_once(scripted, leader: Leader) -> None:
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1]:
                consumer.seek(T0, 3)
            if len(seen) == 4:
                break
        assert seen == [0, 1, 3, 4]


async def test_what_is_broken_on_the_brokers_disk_is_an_error_with_every_poll(
    scripted, leader: Leader
) -> None:
    leader.errors = [ErrorCode.CORRUPT_MESSAGE] * 2
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0])
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"t-0 cannot be read at offset 0.*seek") as caught:
                await offsets(consumer)
            assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert await offsets(consumer) == [0, 1, 2, 3, 4]


async def test_a_partition_that_cannot_be_read_costs_the_others_nothing(
    scripted, leader: Leader
) -> None:
    leader.end[1] = 3
    leader.broken = {1}
    async with Consumer(scripted.address, quick(auto_offset_reset="earliest")) as consumer:
        await consumer.assign([T0, T1])
        read: list[int] = []
        failures = 0
        while len(read) < 5 or failures < 2:
            try:
                read += await offsets(consumer)
            except KafkaError as error:
                assert "t-1 cannot be read at offset 0" in error.text
                failures += 1
        assert read == [0, 1, 2, 3, 4]


async def test_a_poll_keeps_its_time_while_a_broker_is_silent(scripted, leader: Leader) -> None:
    """And partitions whose position is known are read meanwhile."""
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0, T1])
        consumer.seek(T0, 0)
        scripted.on[ApiKey.LIST_OFFSETS] = lambda *_: scripted.silence
        async with asyncio.timeout(20):
            assert await offsets(consumer) == [0, 1, 2, 3, 4]
            assert await consumer.poll(10) == {}
        assert scripted.seen[ApiKey.LIST_OFFSETS]


async def test_a_partition_without_a_leader_does_not_keep_the_others_from_starting(
    scripted, leader: Leader
) -> None:
    leader.leaderless = {1}
    settings = quick(auto_offset_reset="earliest", default_api_timeout_ms=2_000)
    async with Consumer(scripted.address, settings) as consumer:
        await consumer.assign([T0, T1])
        async with asyncio.timeout(1):
            assert await offsets(consumer) == [0, 1, 2, 3, 4]
            assert await consumer.position(T0) == 5
        leader.end[1] = 1
        leader.leaderless = set()
        async with asyncio.timeout(20):
            assert [record.offset for record in (await consumer.poll(30_000))[T1]] == [0]


async def test_metadata_that_cannot_be_had_is_not_asked_for_without_a_pause(
    scripted, leader: Leader
) -> None:
    settings = quick(metadata_max_age_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    async with Consumer(scripted.address, settings) as consumer:
        await consumer.assign([T0])
        consumer.seek(T0, 5)
        asked = len(scripted.seen[ApiKey.METADATA])
        scripted.on[ApiKey.METADATA] = lambda *_: scripted.hang_up
        for _ in range(5):
            assert await consumer.poll(20) == {}
        assert len(scripted.seen[ApiKey.METADATA]) == asked + 1


async def test_a_fetch_that_fails_unforeseen_is_an_error_of_the_next_poll(
    scripted, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(prefetcher, "fetch", broken)
    async with Consumer(scripted.address, quick()) as consumer:
        await consumer.assign([T0])
        consumer.seek_to_beginning()
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(30_000)
        monkeypatch.undo()
        assert await offsets(consumer) == [0, 1, 2, 3, 4]


async def test_a_waiting_poll_ends_with_its_consumer(scripted, leader: Leader) -> None:
    consumer = Consumer(scripted.address, quick())
    await consumer.assign([T0])
    consumer.pause(T0)
    consumer.seek_to_beginning()
    assert await consumer.position(T0) == 0
    waiting = asyncio.create_task(consumer.poll(600_000))
    await asyncio.sleep(0)
    await consumer.close()
    async with asyncio.timeout(20):
        with pytest.raises(ClientClosed):
            await waiting
