"""A leader is paused or cut off with requests in flight: our clients go on with the next one.

They use their default settings, so nothing here waits for `request.timeout.ms` (30 s).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash_kit.reader import PartitionReader
from floodmark.client import Consumer, ConsumerSettings, Producer, ProducerSettings
from floodmark.client.cluster.cluster import Cluster as ClientCluster
from floodmark.client.cluster.cluster import CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.view import TopicPartition
from floodmark.testing import Cluster
from kit.cluster import port_of

SESSION_MS = 3000
GROUP, TRANSACTION = CoordinatorType.GROUP, CoordinatorType.TRANSACTION
BUSY_S = 3.0
"""What a machine that does other things as well may add."""

LONGEST_S = SESSION_MS / 1000 + 1 + BUSY_S

Stop = Callable[[Cluster, int], None]


def paused(cluster: Cluster, broker: int) -> None:
    cluster.pause(broker)


def cut_off(cluster: Cluster, broker: int) -> None:
    cluster.cut_off(broker, from_="clients")
    cluster.cut_off(broker, from_="brokers")
    cluster.cut_off(broker, from_="store")


def bring_back(cluster: Cluster, broker: int, topic: str) -> None:
    """It answers now what it was asked in the meantime."""
    cluster.resume(broker)
    cluster.heal()
    cluster.wait_until_complete()
    cluster.wait_until_in_sync(topic)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, {"zookeeper.session.timeout.ms": SESSION_MS}) as running:
        yield running


@pytest.mark.parametrize("stop", [paused, cut_off])
async def test_a_producer_goes_on_within_a_second_after_the_session(
    cluster: Cluster, stop: Stop
) -> None:
    topic = await asyncio.to_thread(cluster.create_topic)
    leader = await asyncio.to_thread(cluster.leader_of, topic)
    values = [b"%d" % number for number in range(20)]
    # One record per batch, so there are five requests in flight and others behind them.
    async with Producer(cluster.address(leader), ProducerSettings(batch_size=1)) as producer:
        await producer.send_and_wait(topic, values[0], partition=0)
        await asyncio.to_thread(stop, cluster, leader)
        began = time.monotonic()
        deliveries = [await producer.send(topic, value, partition=0) for value in values[1:]]
        assert (await deliveries[0]).offset == 1
        took_s = time.monotonic() - began
        print(f"the producer went on {took_s:.2f} s after its leader was {stop.__name__}")
        assert took_s < LONGEST_S
        assert [(await one).offset for one in deliveries] == list(range(1, len(values)))
        await asyncio.to_thread(bring_back, cluster, leader, topic)
        await producer.send_and_wait(topic, b"after", partition=0)
    assert await everything(cluster, topic) == [*values, b"after"]


@pytest.mark.parametrize("stop", [paused, cut_off])
async def test_a_group_reads_and_commits_within_a_second_after_the_session(
    cluster: Cluster, stop: Stop
) -> None:
    """The broker leads the partition and coordinates the group."""
    group = f"readers-{stop.__name__}"
    broker = await coordinator_of(cluster, group, GROUP)
    topic, partition = await topic_led_by(cluster, broker)
    settings = ConsumerSettings(
        group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with (
        Producer(cluster.bootstrap_servers) as producer,
        Consumer(cluster.bootstrap_servers, settings) as consumer,
    ):
        await producer.send_and_wait(topic, b"before", partition=partition)
        await consumer.subscribe([topic])
        assert await read(consumer, 1) == [b"before"]
        # A fetch is in flight.
        await consumer.poll(0)
        await asyncio.to_thread(stop, cluster, broker)
        began = time.monotonic()
        committing = consumer.commit_nowait()
        delivery = await producer.send(topic, b"meanwhile", partition=partition)
        assert await read(consumer, 1) == [b"meanwhile"]
        await committing
        took_s = time.monotonic() - began
        print(f"the group went on {took_s:.2f} s after its broker was {stop.__name__}")
        assert took_s < LONGEST_S
        await delivery
        await consumer.commit()
        committed = await consumer.committed(consumer.assignment)
        assert committed[TopicPartition(topic, partition)].offset == 2
        await asyncio.to_thread(bring_back, cluster, broker, topic)


@pytest.mark.parametrize("stop", [paused, cut_off])
async def test_a_transaction_commits_within_a_second_after_the_session(
    cluster: Cluster, stop: Stop
) -> None:
    """The broker leads the partition and coordinates the transaction."""
    settings = ProducerSettings(transactional_id=f"tx-{stop.__name__}", batch_size=1)
    broker = await coordinator_of(cluster, str(settings.transactional_id), TRANSACTION)
    topic, partition = await topic_led_by(cluster, broker)
    values = [b"%d" % number for number in range(20)]
    async with Producer(cluster.bootstrap_servers, settings) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, values[0], partition=partition)
        await asyncio.to_thread(stop, cluster, broker)
        began = time.monotonic()
        for value in values[1:]:
            await producer.send(topic, value, partition=partition)
        await producer.commit_transaction()
        took_s = time.monotonic() - began
        print(f"the transaction went on {took_s:.2f} s after its broker was {stop.__name__}")
        assert took_s < LONGEST_S
        await asyncio.to_thread(bring_back, cluster, broker, topic)
        async with producer.transaction():
            await producer.send(topic, b"after", partition=partition)
    readers = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest")
    async with Consumer(cluster.bootstrap_servers, readers) as consumer:
        await consumer.assign([TopicPartition(topic, partition)])
        assert await read(consumer, len(values) + 1) == [*values, b"after"]


async def coordinator_of(cluster: Cluster, key: str, kind: CoordinatorType) -> int:
    async with ClientCluster(cluster.bootstrap_servers) as client:
        return await client.retry(lambda: client.coordinator(kind, key))


async def topic_led_by(cluster: Cluster, broker: int) -> tuple[str, int]:
    """A new topic, and its partition that this broker leads."""
    topic = await asyncio.to_thread(cluster.create_topic, partitions=len(cluster.ids))
    for partition in range(len(cluster.ids)):
        if await asyncio.to_thread(cluster.leader_of, topic, partition) == broker:
            return topic, partition
    raise AssertionError(f"broker {broker} leads no partition of {topic}")


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        for records in (await consumer.poll()).values():
            values += [record.value for record in records]
    return values


async def everything(cluster: Cluster, topic: str) -> list[bytes | None]:
    leader = await asyncio.to_thread(cluster.leader_of, topic)
    connection = await Connection.open("127.0.0.1", port_of(cluster, leader))
    try:
        reader = PartitionReader(connection, topic, 0)
        return [record.value for record in await reader.read(0, await reader.end_offset())]
    finally:
        await connection.close()
