"""Partitions that move between brokers under load, while the controller is killed, and back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.admin.reassignments import PartitionReassignment
from floodmark.client.cluster.view import TopicPartition
from floodmark.testing import Cluster
from kit.waiting import wait_for

TOPIC = "moving"
PARTITIONS = 3
SEED = 11

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, {"auto.leader.rebalance.enable": False}) as cluster:
        yield cluster


def test_partitions_move_under_load_and_nothing_is_lost(cluster: Cluster) -> None:
    create(cluster, {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    load.start()
    try:
        for round_ in ({0: [2, 3], 1: [3, 1], 2: [1, 2]}, {0: [3], 1: [1, 2, 3], 2: [2, 1]}):
            move(cluster, round_)
            wait_for(lambda: not moves(cluster), 60)
            assert assignment(cluster) == round_
            assert not load.problems
            for broker in cluster.ids:
                held = [index for index, brokers in round_.items() if broker in brokers]
                wait_for(lambda b=broker, held=held: folders(cluster, b) == held)
    finally:
        load.finish()
    assert not load.problems
    check_all(cluster, checker, load)


def test_a_move_outlives_the_controller_and_can_be_called_off(cluster: Cluster) -> None:
    controller = cluster.controller()
    held_up, other = (broker for broker in cluster.ids if broker != controller)
    create(cluster, {0: [controller, other], 1: [other, controller], 2: [other, controller]})
    # While it is down it cannot catch up, so the move stays under way.
    cluster.stop(held_up)
    move(cluster, {0: [other, held_up]})
    expected = PartitionReassignment((other, held_up, controller), (held_up,), (controller,))
    assert moves(cluster) == {TopicPartition(TOPIC, 0): expected}
    cluster.kill(controller)
    assert cluster.controller() == other
    assert moves(cluster) == {TopicPartition(TOPIC, 0): expected}
    cluster.start(controller, held_up)
    wait_for(lambda: not moves(cluster), 60)
    assert assignment(cluster)[0] == [other, held_up]

    cluster.stop(held_up)
    move(cluster, {1: [held_up, other]})
    assert moves(cluster)
    move(cluster, {1: None})
    assert not moves(cluster)
    assert assignment(cluster)[1] == [other, controller]
    cluster.start(held_up)
    assert folders(cluster, held_up) == [0]


def test_a_topic_is_deleted_in_the_middle_of_a_move_also_where_the_broker_was_down(
    cluster: Cluster,
) -> None:
    controller = cluster.controller()
    held_up, other = (broker for broker in cluster.ids if broker != controller)
    create(cluster, {0: [other, held_up], 1: [other, controller], 2: [other, controller]})
    # A folder that the kill leaves without the topic's id would be nobody's, and stay.
    topic_id = cluster.data_dir(held_up) / f"{TOPIC}-0" / "partition.metadata"
    wait_for(lambda: topic_id.exists() and topic_id.stat().st_size > 0)
    cluster.kill(held_up)
    move(cluster, {1: [held_up, other]})
    asyncio.run(delete(cluster.bootstrap_servers))
    for broker in (controller, other):
        wait_for(lambda b=broker: folders(cluster, b) == [])
    assert folders(cluster, held_up) == [0]
    cluster.start(held_up)
    wait_for(lambda: folders(cluster, held_up) == [])


def test_a_topic_that_is_deleted_while_a_broker_stands_still_goes_there_as_well(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path, {"zookeeper.session.timeout.ms": 2000}) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        still = next(broker for broker in cluster.ids if broker != cluster.controller())
        wait_for(lambda: folders(cluster, still) == [0, 1, 2])
        cluster.pause(still)
        wait_for(lambda: still not in cluster.in_sync_replicas(TOPIC))
        asyncio.run(delete(cluster.address(cluster.controller())))
        cluster.resume(still)
        wait_for(lambda: folders(cluster, still) == [], 60)


def folders(cluster: Cluster, broker_id: int) -> list[int]:
    """The partitions of the topic that a broker holds; those being removed have other names."""
    data = cluster.data_dir(broker_id)
    found = (path.name.removeprefix(f"{TOPIC}-") for path in data.glob(f"{TOPIC}-*"))
    return sorted(int(name) for name in found if name.isdecimal())


def create(cluster: Cluster, assignments: dict[int, list[int]]) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic(TOPIC, assignments=assignments))

    asyncio.run(ask())


async def delete(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        (outcome,) = await admin.delete_topics([TOPIC])
        assert outcome.error is None


def move(cluster: Cluster, wanted: dict[int, list[int] | None]) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            moves = {TopicPartition(TOPIC, index): to for index, to in wanted.items()}
            outcomes = await admin.alter_partition_reassignments(moves)
            assert set(outcomes.values()) == {None}

    asyncio.run(ask())


def moves(cluster: Cluster) -> dict[TopicPartition, PartitionReassignment]:
    async def ask() -> dict[TopicPartition, PartitionReassignment]:
        async with Admin(cluster.bootstrap_servers) as admin:
            return await admin.list_partition_reassignments()

    return asyncio.run(ask())


def assignment(cluster: Cluster) -> dict[int, list[int]]:
    async def ask() -> dict[int, list[int]]:
        async with Admin(cluster.bootstrap_servers) as admin:
            (topic,) = await admin.describe_topics([TOPIC])
            return {index: list(one.replicas) for index, one in topic.partitions.items()}

    return asyncio.run(ask())
