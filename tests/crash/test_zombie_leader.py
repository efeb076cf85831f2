"""A leader whose session is over acknowledges nothing with acks=all, though it does not know yet.

Its epoch is over and another broker leads. One that stood still finds in its sockets what clients
have sent it meanwhile, before it can learn anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from crash_kit.reader import PartitionReader
from floodmark.client.cluster.connection import Connection
from floodmark.testing import Cluster
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.produce import ProduceResponse
from kit.plain_requests import produce_request
from kit.waiting import eventually, wait_for

ALL = -1
LAST_PRODUCE_BY_NAME = 12
ZOMBIES = 20
"""Connections with a request in the socket: one of them would be served first."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"zookeeper.session.timeout.ms": 1000}
    with Cluster(tmp_path_factory.mktemp("zombie"), settings) as running:
        yield running


async def connect(cluster: Cluster, broker: int) -> Connection:
    host, _, port = cluster.address(broker).rpartition(":")
    return await Connection.open(host, int(port))


async def produce(connection: Connection, topic: str) -> ErrorCode:
    answer: ProduceResponse = await connection.request(
        produce_request(topic, acks=ALL), max_version=LAST_PRODUCE_BY_NAME
    )
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def write(connection: Connection, topic: str) -> None:
    """Clients may hear who leads a partition before the leader itself does."""
    answers = []

    async def is_taken() -> bool:
        answers.append(await produce(connection, topic))
        return answers[-1] is not ErrorCode.NOT_LEADER_OR_FOLLOWER

    await eventually(is_taken)
    assert answers[-1] is ErrorCode.NONE


async def test_a_leader_that_wakes_up_after_its_epoch_acknowledges_nothing(
    cluster: Cluster,
) -> None:
    topic = await asyncio.to_thread(cluster.create_topic)
    zombie = await asyncio.to_thread(cluster.leader_of, topic)
    connections = [await connect(cluster, zombie) for _ in range(ZOMBIES)]
    await write(connections[0], topic)
    cluster.pause(zombie)
    waiting = [asyncio.create_task(produce(one, topic)) for one in connections]
    leader = await next_leader(cluster, topic, zombie)
    await write(leader, topic)
    cluster.resume(zombie)
    assert ErrorCode.NONE not in await asyncio.gather(*waiting)
    await check_and_close(cluster, topic, leader, connections)


async def test_a_leader_that_does_not_know_that_its_session_is_over_acknowledges_nothing(
    cluster: Cluster,
) -> None:
    """It lives, clients and brokers reach it, only the store does not."""
    topic = await asyncio.to_thread(cluster.create_topic)
    zombie = await asyncio.to_thread(cluster.leader_of, topic)
    connection = await connect(cluster, zombie)
    await write(connection, topic)
    cluster.cut_off(zombie, from_="store")
    leader = await next_leader(cluster, topic, zombie)
    await write(leader, topic)
    assert await produce(connection, topic) is not ErrorCode.NONE
    cluster.heal()
    await check_and_close(cluster, topic, leader, [connection])


async def next_leader(cluster: Cluster, topic: str, before: int) -> Connection:
    await asyncio.to_thread(wait_for, lambda: cluster.leader_of(topic) != before)
    return await connect(cluster, await asyncio.to_thread(cluster.leader_of, topic))


async def check_and_close(
    cluster: Cluster, topic: str, leader: Connection, others: list[Connection]
) -> None:
    """The two records that were acknowledged are there, and nothing else."""
    await asyncio.to_thread(cluster.wait_until_in_sync, topic)
    assert len(await PartitionReader(leader, topic, 0).read(0, 2)) == 2
    assert await PartitionReader(leader, topic, 0).end_offset() == 2
    for connection in (*others, leader):
        await connection.close()
