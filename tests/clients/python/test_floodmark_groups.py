"""Our consumer in groups, against our broker and (FLOODMARK_TEST_TARGET=kafka) Apache Kafka."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Collection

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group import RebalanceListener
from floodmark.client.consumer.group_offsets import OffsetAndMetadata
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.wire.errors import ErrorCode
from kit.broker import Broker

PARTITIONS = 4


@pytest.fixture
async def admin(broker: Broker) -> AsyncIterator[Admin]:
    async with Admin(broker.bootstrap) as admin:
        yield admin


@pytest.fixture
async def partitions(admin: Admin, topic: str) -> list[TopicPartition]:
    await admin.create_topic(NewTopic(topic, PARTITIONS))
    return [TopicPartition(topic, index) for index in range(PARTITIONS)]


def settings_for(topic: str, **changes: object) -> ConsumerSettings:
    values: dict[str, object] = {
        "group_id": f"group-{topic}",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 6_000,
        "fetch_max_wait_ms": 50,
    }
    return ConsumerSettings(**(values | changes))  # type: ignore[arg-type]


class Journal(RebalanceListener):
    """Writes down what happens to partitions."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", [p.partition for p in partitions]))

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", [p.partition for p in partitions]))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("lost", [p.partition for p in partitions]))


class Reader:
    """A consumer that polls in the background and keeps what it read."""

    def __init__(self, broker: Broker, settings: ConsumerSettings) -> None:
        self.consumer = Consumer(broker.bootstrap, settings)
        self.journal = Journal()
        self.values: list[bytes | None] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self, *topics: str, pattern: str | None = None) -> "Reader":
        await self.consumer.subscribe(topics, pattern=pattern, listener=self.journal)
        self._task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        while True:
            for records in (await self.consumer.poll(50)).values():
                self.values += [record.value for record in records]

    async def pause(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def stop(self) -> None:
        await self.pause()
        await self.consumer.close()


async def until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)


async def produce(broker: Broker, topic: str, first: int, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    async with Producer(broker.bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % PARTITIONS)
    return values


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_partitions_are_shared_and_handed_over(
    broker: Broker, partitions: list[TopicPartition], strategy: str
) -> None:
    topic = partitions[0].topic
    settings = settings_for(topic, partition_assignment_strategy=strategy)
    one = await Reader(broker, settings).start(topic)
    await until(lambda: sorted(one.consumer.assignment) == partitions)
    sent = await produce(broker, topic, 0, 100)
    await until(lambda: len(one.values) == 100)

    two = await Reader(broker, settings).start(topic)
    await until(lambda: len(one.consumer.assignment) == len(two.consumer.assignment) == 2)
    assert sorted(one.consumer.assignment + two.consumer.assignment) == partitions
    sent += await produce(broker, topic, 100, 100)
    await until(lambda: len(one.values) + len(two.values) == 200)

    await one.stop()
    await until(lambda: sorted(two.consumer.assignment) == partitions)
    sent += await produce(broker, topic, 200, 100)
    await until(lambda: len(one.values) + len(two.values) == 300)
    await two.stop()
    # Each handover began with a commit, so nothing was read twice.
    assert sorted(one.values + two.values, key=lambda value: int(value or b"")) == sent


async def test_a_cooperative_member_keeps_what_it_may_keep(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    settings = settings_for(topic, partition_assignment_strategy="cooperative-sticky")
    one = await Reader(broker, settings).start(topic)
    await until(lambda: len(one.consumer.assignment) == 4)
    two = await Reader(broker, settings).start(topic)
    await until(lambda: len(two.consumer.assignment) == 2)
    revoked = [numbers for event, numbers in one.journal.events if event == "revoked"]
    assert [len(numbers) for numbers in revoked] == [2]
    await two.stop()
    await one.stop()


async def test_an_eager_member_gives_up_everything_first(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    one = await Reader(broker, settings_for(topic)).start(topic)
    await until(lambda: len(one.consumer.assignment) == 4)
    two = await Reader(broker, settings_for(topic)).start(topic)
    await until(lambda: len(one.consumer.assignment) == 2)
    assert one.journal.events == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
        ("assigned", one.journal.events[2][1]),
    ]
    await two.stop()
    await one.stop()


async def test_commits_are_where_the_next_consumer_begins(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    await produce(broker, topic, 0, 40)
    manual = settings_for(topic, enable_auto_commit=False)
    async with Consumer(broker.bootstrap, manual) as consumer:
        await consumer.subscribe([topic])
        read = 0
        while read < 40:
            read += sum(map(len, (await consumer.poll()).values()))
        await consumer.commit({partitions[0]: OffsetAndMetadata(7, "seven")})
        await consumer.commit_nowait({partitions[1]: 8})
        assert await consumer.committed(partitions) == {
            partitions[0]: OffsetAndMetadata(7, "seven"),
            partitions[1]: OffsetAndMetadata(8),
        }
    async with Consumer(broker.bootstrap, manual) as consumer:
        await consumer.assign(partitions)
        assert [await consumer.position(p) for p in partitions] == [7, 8, 0, 0]


async def test_automatic_commits_happen_while_polling(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    await produce(broker, topic, 0, 40)
    settings = settings_for(topic, auto_commit_interval_ms=50)
    reader = await Reader(broker, settings).start(topic)
    async with Consumer(broker.bootstrap, settings_for(topic)) as other, asyncio.timeout(30):
        offsets: set[int] = set()
        while offsets != {10}:
            offsets = {item.offset for item in (await other.committed(partitions)).values()}
    await reader.stop()


async def test_an_iteration_commits_only_what_it_has_handed_out(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    await produce(broker, topic, 0, 40)
    async with Consumer(broker.bootstrap, settings_for(topic)) as consumer:
        await consumer.subscribe([topic])
        read = 0
        async for _ in consumer:
            read += 1
            if read == 5:
                break
    async with Consumer(broker.bootstrap, settings_for(topic)) as consumer:
        found = await consumer.committed(partitions)
        # The fifth record was handed out, but nobody has said that it was dealt with.
        assert sum(item.offset for item in found.values()) == 4


async def test_a_pattern_finds_topics_that_come_later(
    broker: Broker, admin: Admin, topic: str
) -> None:
    settings = settings_for(topic, metadata_max_age_ms=200)
    reader = await Reader(broker, settings).start(pattern=re.escape(topic) + "-(a|b)")
    await admin.create_topic(NewTopic(f"{topic}-a", 1))
    await until(lambda: reader.consumer.assignment == [TopicPartition(f"{topic}-a", 0)])
    await admin.create_topic(NewTopic(f"{topic}-b", 1))
    await admin.create_topic(NewTopic(f"{topic}-bc", 1))
    await until(lambda: len(reader.consumer.assignment) == 2)
    assert {p.topic for p in reader.consumer.assignment} == {f"{topic}-a", f"{topic}-b"}
    await reader.stop()


async def test_added_partitions_are_read_too(
    broker: Broker, admin: Admin, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    reader = await Reader(broker, settings_for(topic, metadata_max_age_ms=200)).start(topic)
    await until(lambda: len(reader.consumer.assignment) == PARTITIONS)
    await admin.add_partitions({topic: PARTITIONS + 2})
    await until(lambda: len(reader.consumer.assignment) == PARTITIONS + 2)
    await reader.stop()


async def test_a_subscribed_topic_may_come_later(broker: Broker, admin: Admin, topic: str) -> None:
    reader = await Reader(broker, settings_for(topic)).start(topic)
    await until(lambda: reader.journal.events == [("assigned", [])])
    await admin.create_topic(NewTopic(topic, 1))
    await until(lambda: len(reader.consumer.assignment) == 1)
    await reader.stop()


async def test_a_member_that_does_not_poll_loses_its_partitions(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    slow = await Reader(broker, settings_for(topic, max_poll_interval_ms=1_000)).start(topic)
    await until(lambda: len(slow.consumer.assignment) == PARTITIONS)
    await slow.pause()
    other = await Reader(broker, settings_for(topic)).start(topic)
    await until(lambda: len(other.consumer.assignment) == PARTITIONS)
    with pytest.raises(KafkaError) as refused:
        await slow.consumer.commit({partitions[0]: 1})
    assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    await slow.consumer.poll(0)
    assert slow.journal.events[-1] == ("lost", [0, 1, 2, 3])
    await slow.stop()
    await other.stop()


async def test_a_static_member_that_restarts_causes_no_rebalance(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    static = settings_for(topic, group_instance_id="i-1", session_timeout_ms=20_000)
    first = await Reader(broker, static).start(topic)
    await until(lambda: len(first.consumer.assignment) == PARTITIONS)
    other = await Reader(
        broker, settings_for(topic, group_instance_id="i-2", session_timeout_ms=20_000)
    ).start(topic)
    await until(lambda: len(first.consumer.assignment) == len(other.consumer.assignment) == 2)
    before = list(other.journal.events)
    had = sorted(first.consumer.assignment)
    await first.stop()
    again = await Reader(broker, static).start(topic)
    await until(lambda: sorted(again.consumer.assignment) == had)
    assert other.journal.events == before
    await again.stop()
    await other.stop()


async def test_a_second_member_of_the_same_instance_fences_the_first(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    static = settings_for(topic, group_instance_id="i-1")
    async with Consumer(broker.bootstrap, static) as first:
        await first.subscribe([topic])
        while not first.assignment:
            await first.poll(50)
        second = await Reader(broker, static).start(topic)
        await until(lambda: len(second.consumer.assignment) == PARTITIONS)
        with pytest.raises(KafkaError) as fenced:
            async with asyncio.timeout(30):
                while True:
                    await first.poll(50)
        assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
        await second.stop()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("ours_first", [True, False])
async def test_librdkafka_may_be_in_the_same_group(
    broker: Broker, partitions: list[TopicPartition], strategy: str, ours_first: bool
) -> None:
    """The first member leads, so each of the two has to understand the other's assignment."""
    topic = partitions[0].topic
    theirs = LibrdkafkaConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"group-{topic}",
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
        }
    )
    ours = Reader(broker, settings_for(topic, partition_assignment_strategy=strategy))

    async def poll_theirs_until(count: int) -> None:
        async with asyncio.timeout(30):
            while len(theirs.assignment()) != count:
                await asyncio.to_thread(theirs.poll, 0.05)

    try:
        if ours_first:
            await ours.start(topic)
            await until(lambda: len(ours.consumer.assignment) == 4)
            theirs.subscribe([topic])
        else:
            theirs.subscribe([topic])
            await poll_theirs_until(4)
            await ours.start(topic)
        await poll_theirs_until(2)
        await until(lambda: len(ours.consumer.assignment) == 2)
        shared = [TopicPartition(p.topic, p.partition) for p in theirs.assignment()]
        assert sorted(shared + ours.consumer.assignment) == partitions
        await asyncio.to_thread(theirs.close)
        await until(lambda: len(ours.consumer.assignment) == 4)
    finally:
        await ours.stop()


async def test_read_process_write_is_exactly_once_over_a_rebalance(
    broker: Broker, admin: Admin, partitions: list[TopicPartition]
) -> None:
    """Two copiers in one group commit their input offsets in the transactions of their output."""
    topic = partitions[0].topic
    output = f"{topic}-out"
    await admin.create_topic(NewTopic(output, 1))
    sent = await produce(broker, topic, 0, 200)
    settings = settings_for(
        topic, enable_auto_commit=False, isolation_level="read_committed", max_poll_records=10
    )

    async def copy(name: str) -> None:
        async with (
            Producer(broker.bootstrap, ProducerSettings(transactional_id=name)) as producer,
            Consumer(broker.bootstrap, settings) as consumer,
        ):
            await producer.init_transactions()
            await consumer.subscribe([topic])
            while True:
                polled = await consumer.poll(100)
                if not polled:
                    continue
                try:
                    async with producer.transaction():
                        for records in polled.values():
                            for record in records:
                                await producer.send(output, record.value, partition=0)
                        await producer.send_offsets_to_transaction(
                            {p: records[-1].offset + 1 for p, records in polled.items()},
                            consumer.group_metadata,
                        )
                except KafkaError:
                    # The partitions went to the other copier: begin where the group stands.
                    committed = await consumer.committed(polled)
                    for partition in set(polled) & set(consumer.assignment):
                        found = committed.get(partition)
                        consumer.seek(partition, 0 if found is None else found.offset)

    copiers = [asyncio.create_task(copy(f"{topic}-{number}")) for number in range(2)]
    reading = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest")
    async with Consumer(broker.bootstrap, reading) as reader, asyncio.timeout(60):
        await reader.assign([TopicPartition(output, 0)])
        copied: list[bytes | None] = []
        while len(copied) < len(sent):
            for records in (await reader.poll(200)).values():
                copied += [record.value for record in records]
        for records in (await reader.poll(500)).values():
            copied += [record.value for record in records]
    for copier in copiers:
        copier.cancel()
    await asyncio.gather(*copiers, return_exceptions=True)
    assert sorted(copied, key=lambda value: int(value or b"")) == sent
