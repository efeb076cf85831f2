"""Our transactional producer, against our broker and (FLOODMARK_TEST_TARGET=kafka) Apache Kafka."""

import asyncio

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    commit_offsets,
    committed_offsets,
)
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.wire.errors import ErrorCode
from kit.broker import Broker


@pytest.fixture
async def partitions(broker: Broker, topic: str) -> list[TopicPartition]:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(topic, 2))
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def transactional(broker: Broker, name: str) -> Producer:
    return Producer(broker.bootstrap, ProducerSettings(transactional_id=name))


async def committed_values(
    broker: Broker, partitions: list[TopicPartition]
) -> list[list[bytes | None]]:
    """What a read_committed reader finds up to the last stable offset of each partition."""
    settings = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest")
    async with Consumer(broker.bootstrap, settings) as consumer:
        await consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        values: dict[TopicPartition, list[bytes | None]] = {p: [] for p in partitions}
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for partition, records in (await consumer.poll()).items():
                values[partition] += [record.value for record in records]
    return [values[p] for p in partitions]


async def test_a_transaction_over_two_partitions_is_seen_whole_or_not_at_all(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    async with transactional(broker, f"tx-{topic}") as producer:
        await producer.init_transactions()
        for round_number in range(6):
            producer.begin_transaction()
            for partition in (0, 1):
                await producer.send(topic, b"%d" % round_number, partition=partition)
            if round_number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    assert await committed_values(broker, partitions) == [[b"0", b"2", b"4"]] * 2


async def test_a_block_that_raises_aborts_its_transaction(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    async with transactional(broker, f"tx-{topic}") as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"never", partition=0)
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send(topic, b"seen", partition=0)
    assert await committed_values(broker, partitions) == [[b"seen"], []]


async def test_an_empty_transaction_commits_and_aborts(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    async with transactional(broker, f"tx-{partitions[0].topic}") as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.abort_transaction()


async def test_a_closed_producer_leaves_no_transaction_open(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    async with transactional(broker, f"tx-{topic}") as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"never", partition=0)
    # The end that read_committed sees lies behind the abort marker, at once.
    async with Consumer(
        broker.bootstrap, ConsumerSettings(isolation_level="read_committed")
    ) as consumer:
        assert await consumer.end_offsets(partitions[:1]) == {partitions[0]: 2}


async def test_a_newer_producer_fences_the_older(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    async with transactional(broker, f"tx-{topic}") as old:
        await old.init_transactions()
        old.begin_transaction()
        await old.send_and_wait(topic, b"never", partition=0)
        async with transactional(broker, f"tx-{topic}") as new:
            await new.init_transactions()
            async with new.transaction():
                await new.send(topic, b"seen", partition=0)
        with pytest.raises(KafkaError) as commit:
            await old.commit_transaction()
        assert commit.value.code is ErrorCode.PRODUCER_FENCED
        with pytest.raises(KafkaError) as later:
            await old.send(topic, b"never", partition=0)
        assert later.value.code is ErrorCode.PRODUCER_FENCED
    assert await committed_values(broker, partitions) == [[b"seen"], []]


async def test_offsets_sent_to_a_transaction_count_when_it_commits(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    topic = partitions[0].topic
    group = f"group-{topic}"
    async with transactional(broker, f"tx-{topic}") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"1", partition=0)
            offset = OffsetAndMetadata(5, "batch 7")
            await producer.send_offsets_to_transaction({partitions[0]: offset}, group)
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({partitions[0]: 9}, group)
        await producer.abort_transaction()
        found = await committed_offsets(producer.cluster, group, require_stable=True)
    assert found == {partitions[0]: offset}


async def test_offsets_of_a_group_without_members_are_committed_and_read_back(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    group = GroupMetadata(f"group-{partitions[0].topic}")
    async with Cluster(broker.bootstrap) as cluster:
        assert await committed_offsets(cluster, group.group_id) == {}
        await commit_offsets(cluster, group, {partitions[0]: 3, partitions[1]: 4})
        assert await committed_offsets(cluster, group.group_id, partitions[1:]) == {
            partitions[1]: OffsetAndMetadata(4)
        }
        found = await committed_offsets(cluster, group.group_id)
        assert {p: item.offset for p, item in found.items()} == dict(
            zip(partitions, (3, 4), strict=True)
        )


async def test_many_transactions_at_a_time_end_in_order(
    broker: Broker, partitions: list[TopicPartition]
) -> None:
    """Each transaction begins while the coordinator may still be ending the one before."""
    topic = partitions[0].topic

    async def run(name: str, partition: int) -> None:
        async with transactional(broker, name) as producer:
            await producer.init_transactions()
            for number in range(20):
                async with producer.transaction():
                    await producer.send(topic, b"%d" % number, partition=partition)

    await asyncio.gather(run(f"one-{topic}", 0), run(f"two-{topic}", 1))
    numbers = [b"%d" % number for number in range(20)]
    assert await committed_values(broker, partitions) == [numbers, numbers]
