"""Partitions that move between brokers under load, while the controller is killed, and back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.admin.reassignments import PartitionReassignment
from floodmark.client.cluster.view import TopicPartition
from kit.cluster import IDS, ProcessCluster
from kit.waiting import wait_for

TOPIC = "moving"
PARTITIONS = 3
SEED = 11

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster(tmp_path, {"auto.leader.rebalance.enable": "false"})
    yield cluster
    cluster.stop()


def test_partitions_move_under_load_and_nothing_is_lost(cluster: ProcessCluster) -> None:
    create(cluster, {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    load, checker = Load(cluster.bootstrap, TOPIC, PARTITIONS, SEED), None
    load.start()
    try:
        checker = Checker(TOPIC, PARTITIONS, SEED)
        for round_ in ({0: [2, 3], 1: [3, 1], 2: [1, 2]}, {0: [3], 1: [1, 2, 3], 2: [2, 1]}):
            move(cluster, round_)
            wait_for(lambda: not moves(cluster), 60)
            assert assignment(cluster) == round_
            assert not load.problems
            for broker_id in IDS:
                held = [index for index, brokers in round_.items() if broker_id in brokers]
                wait_for(lambda b=broker_id, held=held: folders(cluster, b) == held)
        load.finish()
        assert not load.problems
        asyncio.run(checker.check_all(cluster.leaders(TOPIC), load))
    finally:
        load.finish()


def test_a_move_outlives_the_controller_and_can_be_called_off(cluster: ProcessCluster) -> None:
    controller = controller_of(cluster)
    held_up, other = (broker for broker in IDS if broker != controller)
    create(cluster, {0: [controller, other], 1: [other, controller], 2: [other, controller]})
    # While it is down it cannot catch up, so the move stays under way.
    cluster.processes[held_up].stop()
    move(cluster, {0: [other, held_up]})
    expected = PartitionReassignment((other, held_up, controller), (held_up,), (controller,))
    assert moves(cluster) == {TopicPartition(TOPIC, 0): expected}
    cluster.processes[controller].kill()
    wait_for(lambda: controller_of(cluster) == other, 60)
    assert moves(cluster) == {TopicPartition(TOPIC, 0): expected}
    cluster.start(controller)
    cluster.start(held_up)
    cluster.wait_until_up()
    wait_for(lambda: not moves(cluster), 60)
    assert assignment(cluster)[0] == [other, held_up]

    cluster.processes[held_up].stop()
    move(cluster, {1: [held_up, other]})
    assert moves(cluster)
    move(cluster, {1: None})
    assert not moves(cluster)
    assert assignment(cluster)[1] == [other, controller]
    cluster.start(held_up)
    cluster.wait_until_up()
    assert folders(cluster, held_up) == [0]


def test_a_topic_is_deleted_in_the_middle_of_a_move_also_where_the_broker_was_down(
    cluster: ProcessCluster,
) -> None:
    controller = controller_of(cluster)
    held_up, other = (broker for broker in IDS if broker != controller)
    create(cluster, {0: [other, held_up], 1: [other, controller], 2: [other, controller]})
    wait_for(lambda: folders(cluster, held_up) == [0])
    cluster.processes[held_up].kill()
    move(cluster, {1: [held_up, other]})
    asyncio.run(delete(cluster.bootstrap))
    for broker_id in (controller, other):
        wait_for(lambda b=broker_id: folders(cluster, b) == [])
    assert folders(cluster, held_up) != []
    cluster.start(held_up)
    cluster.wait_until_up()
    wait_for(lambda: folders(cluster, held_up) == [])


def folders(cluster: ProcessCluster, broker_id: int) -> list[int]:
    """The partitions of the topic that a broker holds; those being removed have other names."""
    data = cluster.data_dir(broker_id)
    found = (path.name.removeprefix(f"{TOPIC}-") for path in data.glob(f"{TOPIC}-*"))
    return sorted(int(name) for name in found if name.isdecimal())


def controller_of(cluster: ProcessCluster) -> int:
    async def ask() -> int:
        async with Admin(cluster.bootstrap) as admin:
            return (await admin.describe_cluster()).controller_id

    return asyncio.run(ask())


def create(cluster: ProcessCluster, assignments: dict[int, list[int]]) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(NewTopic(TOPIC, assignments=assignments))

    asyncio.run(ask())


async def delete(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        (outcome,) = await admin.delete_topics([TOPIC])
        assert outcome.error is None


def move(cluster: ProcessCluster, wanted: dict[int, list[int] | None]) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            moves = {TopicPartition(TOPIC, index): to for index, to in wanted.items()}
            outcomes = await admin.alter_partition_reassignments(moves)
            assert set(outcomes.values()) == {None}

    asyncio.run(ask())


def moves(cluster: ProcessCluster) -> dict[TopicPartition, PartitionReassignment]:
    async def ask() -> dict[TopicPartition, PartitionReassignment]:
        async with Admin(cluster.bootstrap) as admin:
            return await admin.list_partition_reassignments()

    return asyncio.run(ask())


def assignment(cluster: ProcessCluster) -> dict[int, list[int]]:
    partitions = cluster.describe(TOPIC).partitions
    return {index: list(one.replicas) for index, one in partitions.items()}
