"""A group member whose requests, rebalances and polls overlap."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.group_admin import GroupDescription
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from kit.group_member import Journal, member_settings, poll_until, poll_until_assigned
from kit.waiting import eventually


def settings(**changes: object) -> ConsumerSettings:
    return member_settings(**({"enable_auto_commit": False} | changes))


@pytest.fixture
def floodmark_settings() -> dict[str, str]:
    return {"group.min.session.timeout.ms": "100"}


@pytest.fixture
async def consumer(floodmark: BrokerThread) -> AsyncIterator[Consumer]:
    async with Consumer(floodmark.bootstrap_servers, settings()) as consumer:
        yield consumer


@pytest.fixture
def journal() -> Journal:
    return Journal()


async def test_a_finished_join_is_kept_alive_until_the_next_poll(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    """Somebody who works on records for longer than a session does not poll meanwhile."""
    await consumer.subscribe([floodmark_topic], listener=journal)
    floodmark.faults.delay("SYNC_GROUP", 0.1)
    async with asyncio.timeout(20):
        while not floodmark.faults.struck["SYNC_GROUP"]:
            await consumer.poll(1)
    await asyncio.sleep(2)  # twice the session
    await poll_until_assigned(consumer)
    await consumer.commit({TopicPartition(floodmark_topic, 0): 0})
    assert journal.events == ["assigned"]


async def test_a_member_dropped_between_two_polls_joins_again(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    await consumer.subscribe([floodmark_topic], listener=journal)
    floodmark.faults.delay("SYNC_GROUP", 0.1)
    floodmark.faults.fail("HEARTBEAT", "UNKNOWN_MEMBER_ID")
    async with asyncio.timeout(20):
        while not floodmark.faults.struck["SYNC_GROUP"]:
            await consumer.poll(1)
        while not floodmark.faults.struck["HEARTBEAT"]:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await poll_until(consumer, journal, "assigned")
    await consumer.commit({TopicPartition(floodmark_topic, 0): 0})


async def test_a_listener_that_raises_does_not_cost_the_assignment(
    floodmark: BrokerThread, floodmark_topic: str, journal: Journal
) -> None:
    cooperative = settings(partition_assignment_strategy="cooperative-sticky")
    async with Consumer(floodmark.bootstrap_servers, cooperative) as consumer:
        await consumer.subscribe([floodmark_topic], listener=journal)
        await poll_until_assigned(consumer)
        journal.fails_once = True
        floodmark.faults.fail("SYNC_GROUP", "UNKNOWN_MEMBER_ID")
        floodmark.faults.fail("HEARTBEAT", "REBALANCE_IN_PROGRESS")
        with pytest.raises(RuntimeError, match="a defect of the caller"):
            await poll_until(consumer, journal, "the error comes first")
        await poll_until_assigned(consumer)


async def test_a_commit_of_an_earlier_generation_is_refused_and_costs_nothing(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    """Others may have had the partition since. The second waits for the first, and goes out after
    the rebalance."""
    partition = TopicPartition(floodmark_topic, 0)
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    floodmark.faults.delay("OFFSET_COMMIT", 0.5)
    commits = [consumer.commit_nowait({partition: 0}) for _ in range(2)]
    floodmark.faults.fail("HEARTBEAT", "REBALANCE_IN_PROGRESS")
    await poll_until(consumer, journal, "assigned", "revoked", "assigned")
    assert not commits[0].done()
    for refused in await asyncio.gather(*commits, return_exceptions=True):
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.ILLEGAL_GENERATION
    await consumer.poll(100)
    assert journal.events == ["assigned", "revoked", "assigned"]


async def test_a_consumer_that_was_dropped_commits_nothing_until_it_has_joined(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    """An empty group would accept it, like the commit of a tool."""
    partition = TopicPartition(floodmark_topic, 0)
    await consumer.subscribe([floodmark_topic])
    await poll_until_assigned(consumer)
    floodmark.faults.fail("HEARTBEAT", "UNKNOWN_MEMBER_ID")
    async with asyncio.timeout(20):
        while not floodmark.faults.struck["HEARTBEAT"]:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    await asyncio.sleep(1.5)  # the group is empty now
    with pytest.raises(KafkaError, match="not a member"):
        await consumer.commit({partition: 0})
    await consumer.poll(20)
    await poll_until_assigned(consumer)
    await consumer.commit({partition: 0})


async def test_one_long_poll_keeps_a_member_without_partitions_in_its_group(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    patient = settings(max_poll_interval_ms=300)
    spare = Consumer(floodmark.bootstrap_servers, patient)
    async with spare, Consumer(floodmark.bootstrap_servers, settings()) as owner:
        await owner.subscribe([floodmark_topic])
        await poll_until_assigned(owner)
        await spare.subscribe([floodmark_topic])
        waiting = asyncio.create_task(spare.poll(60_000))
        async with asyncio.timeout(20):
            while not spare.group_metadata.member_id:
                await owner.poll(20)
        for _ in range(50):
            await owner.poll(20)
        await owner.close()
        async with asyncio.timeout(5):
            while not spare.assignment:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_coordinator_that_is_away_for_long_is_no_error_of_poll(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    """Fetches and joins are repeated too, for as long as it takes."""
    hasty = settings(default_api_timeout_ms=20)
    async with Consumer(floodmark.bootstrap_servers, hasty) as consumer:
        await consumer.subscribe([floodmark_topic])
        floodmark.faults.fail("OFFSET_FETCH", "COORDINATOR_NOT_AVAILABLE", times=20)
        await poll_until_assigned(consumer)
        async with Producer(floodmark.bootstrap_servers) as producer:
            await producer.send_and_wait(floodmark_topic, b"x")
        async with asyncio.timeout(20):
            while not await consumer.poll(50):
                pass


async def test_members_leave_no_connection_in_a_cluster_that_they_share(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    def connections() -> int:
        return sum(len(one.connections) for one in floodmark.broker.network.processors)

    async with Cluster(floodmark.bootstrap_servers, settings()) as cluster:
        for _ in range(4):
            consumer = Consumer(cluster, settings())
            await consumer.subscribe([floodmark_topic])
            await poll_until_assigned(consumer)
            await consumer.close()
        # For metadata, for commits and for fetches: all members share them.
        await eventually(lambda: connections() <= 3, 10)


async def test_a_member_whose_listener_raises_leaves_its_group_nevertheless(
    floodmark: BrokerThread, floodmark_topic: str, journal: Journal
) -> None:
    consumer = Consumer(floodmark.bootstrap_servers, settings(session_timeout_ms=60_000))
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    journal.fails_once = True
    with pytest.raises(RuntimeError, match="a defect of the caller"):
        await consumer.close()
    async with Admin(floodmark.bootstrap_servers) as admin:
        group = (await admin.describe_groups(["group"]))["group"]
    assert isinstance(group, GroupDescription)
    assert group.members == []
