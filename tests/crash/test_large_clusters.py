"""A cluster with much in it: ten thousand partitions on ZooKeeper, and a gigabyte that moves.

Both take minutes and are marked `soak`. They print what they have measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from crash_kit.load import Load
from crash_kit.reader import PartitionReader
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ClientSettings
from floodmark.testing import Cluster
from kit.cluster import leader_ports
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

MANY = 10_000
TOPIC = "large"
GIGABYTE = 1_000_000_000
RECORD_BYTES = 900_000
SEED = 17
PATIENCE_S = 300
PATIENT = ClientSettings(request_timeout_ms=PATIENCE_S * 1000)


@contextmanager
def measured(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"\n{what}: {time.monotonic() - began:.1f} s", flush=True)


def test_ten_thousand_partitions_are_created_and_fail_over_on_zookeeper(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as server:
        connect = {"zookeeper.connect": f"{server.hosts}/kafka"}
        settings = {"zookeeper.session.timeout.ms": 18000, "auto.leader.rebalance.enable": False}
        with Cluster(tmp_path, {**settings, **connect}) as cluster:
            with measured(f"{MANY} partitions with 3 replicas created"):
                asyncio.run(create(cluster, NewTopic(TOPIC, MANY, 3)))
            with measured("until they have leaders"):
                until(cluster, lambda topic: all(p.leader >= 0 for p in topic.partitions.values()))
            controller = cluster.controller()
            victim = controller % len(cluster.ids) + 1
            for broker, name in ((victim, "a broker"), (controller, "the controller")):
                with measured(f"failover after kill -9 of {name}"):
                    cluster.kill(broker)
                    until(cluster, lambda topic, gone=broker: is_led_without(topic, gone))
                with measured("until it serves again"):
                    cluster.start(broker)
                with measured("until all replicas are in sync"):
                    until(cluster, is_in_sync)


def test_a_partition_with_a_gigabyte_moves_under_load_and_back(tmp_path: Path) -> None:
    with Cluster(tmp_path, {"auto.leader.rebalance.enable": False}, brokers=4) as cluster:
        topic = NewTopic(TOPIC, assignments={0: [1, 2, 3]})
        asyncio.run(create(cluster, topic))
        with measured("1 GB written"):
            asyncio.run(fill(cluster))
        first = asyncio.run(end_offset(cluster))
        load = Load(cluster.bootstrap_servers, TOPIC, 1, SEED)
        load.start()
        try:
            with measured("a move begun, and cancelled in the middle"):
                move(cluster, [4, 2, 3])
                wait_for(lambda: size_on(cluster, 4) > GIGABYTE // 10, PATIENCE_S)
                move(cluster, None)
                wait_for(lambda: size_on(cluster, 4) == 0, PATIENCE_S)
            # As with Kafka, the order is not that of before.
            assert sorted(replicas(cluster)) == [1, 2, 3]
            sent = len(load.acknowledged())
            with measured("1 GB moved under load"):
                move(cluster, [4, 2, 3])
                wait_for(lambda: not asyncio.run(moves(cluster)), PATIENCE_S)
            print(f"{len(load.acknowledged()) - sent} records were acknowledged meanwhile")
            assert replicas(cluster) == [4, 2, 3]
            wait_for(lambda: size_on(cluster, 1) == 0, PATIENCE_S)
        finally:
            load.finish()
        assert not load.problems
        assert size_on(cluster, 4) > GIGABYTE
        asyncio.run(check_acknowledged(cluster, load, first))


async def end_offset(cluster: Cluster) -> int:
    async with reader(cluster) as read:
        return await read.end_offset()


async def check_acknowledged(cluster: Cluster, load: Load, first: int) -> None:
    """Everything of the load is there once, in order and where it was acknowledged."""
    async with reader(cluster) as read:
        records = await read.read(first, await read.end_offset())
    assert [record.offset for record in records] == list(range(first, first + len(records)))
    found = [(record.key, record.value.split(b":", 1)[0]) for record in records]
    for _, offset, sent in load.acknowledged():
        assert offset is None or found[offset - first] == (sent.key.encode(), b"%d" % sent.number)
    assert len(found) == len(set(found)) == sum(load.sent.values())


@asynccontextmanager
async def reader(cluster: Cluster) -> AsyncIterator[PartitionReader]:
    connection = await Connection.open("127.0.0.1", leader_ports(cluster, TOPIC, 1)[0])
    try:
        yield PartitionReader(connection, TOPIC, 0)
    finally:
        await connection.close()


def until(cluster: Cluster, wanted: Callable[[TopicView], bool]) -> None:
    wait_for(lambda: wanted(asyncio.run(described(cluster))), PATIENCE_S)


def is_led_without(topic: TopicView, gone: int) -> bool:
    return all(p.leader not in (-1, gone) for p in topic.partitions.values())


def is_in_sync(topic: TopicView) -> bool:
    return all(len(p.in_sync_replicas) == len(p.replicas) for p in topic.partitions.values())


async def create(cluster: Cluster, topic: NewTopic) -> None:
    async with Admin(cluster.bootstrap_servers, PATIENT) as admin:
        await admin.create_topic(topic)


async def described(cluster: Cluster) -> TopicView:
    async with Admin(cluster.address(cluster.controller())) as admin:
        (topic,) = await admin.describe_topics([TOPIC])
        return topic


async def fill(cluster: Cluster) -> None:
    record = b"x" * RECORD_BYTES
    async with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(GIGABYTE // RECORD_BYTES + 1):
            await producer.send(TOPIC, record, partition=0)
        await producer.flush()


def move(cluster: Cluster, target: list[int] | None) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            place = TopicPartition(TOPIC, 0)
            outcomes = await admin.alter_partition_reassignments({place: target})
            assert set(outcomes.values()) == {None}

    asyncio.run(ask())


async def moves(cluster: Cluster) -> object:
    async with Admin(cluster.bootstrap_servers) as admin:
        return await admin.list_partition_reassignments()


def replicas(cluster: Cluster) -> list[int]:
    return list(asyncio.run(described(cluster)).partitions[0].replicas)


def size_on(cluster: Cluster, broker: int) -> int:
    folder = cluster.data_dir(broker) / f"{TOPIC}-0"
    return sum(file.stat().st_size for file in folder.glob("*.log")) if folder.exists() else 0
