"""A consumer in its group when requests fail, get lost or come too late."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group_offsets import OffsetAndMetadata
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import SettingsError
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from kit.group_member import Journal, member_settings, poll_until, poll_until_assigned


@pytest.fixture
def floodmark_settings() -> dict[str, str]:
    """A member that went without a goodbye is missed soon."""
    return {"group.min.session.timeout.ms": "100"}


@pytest.fixture
async def consumer(floodmark: BrokerThread) -> AsyncIterator[Consumer]:
    async with Consumer(floodmark.bootstrap_servers, member_settings()) as consumer:
        yield consumer


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FIND_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
        ("JOIN_GROUP", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JOIN_GROUP", "NOT_COORDINATOR"),
        ("JOIN_GROUP", "UNKNOWN_MEMBER_ID"),
        ("SYNC_GROUP", "REBALANCE_IN_PROGRESS"),
        ("SYNC_GROUP", "ILLEGAL_GENERATION"),
        ("OFFSET_FETCH", "UNSTABLE_OFFSET_COMMIT"),
    ],
)
async def test_a_join_goes_on_until_it_succeeds(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, api: str, error: str
) -> None:
    floodmark.faults.fail(api, error, times=2)
    await consumer.subscribe([floodmark_topic])
    await poll_until_assigned(consumer)
    assert await consumer.position(consumer.assignment[0]) == 0


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("api", ["JOIN_GROUP", "SYNC_GROUP"])
async def test_a_join_survives_a_lost_connection(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, api: str, handled: bool
) -> None:
    floodmark.faults.drop(api, handled=handled)
    await consumer.subscribe([floodmark_topic])
    await poll_until_assigned(consumer)


async def test_a_group_that_refuses_the_member_for_good_is_an_error_of_poll(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    floodmark.faults.fail("JOIN_GROUP", "GROUP_MAX_SIZE_REACHED")
    await consumer.subscribe([floodmark_topic])
    with pytest.raises(KafkaError) as refused:
        await poll_until_assigned(consumer)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    # A member has left meanwhile, so the one that keeps polling gets in.
    await poll_until_assigned(consumer)


async def test_a_heartbeat_tells_of_a_rebalance(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    floodmark.faults.fail("HEARTBEAT", "REBALANCE_IN_PROGRESS")
    await poll_until(consumer, journal, "assigned", "revoked", "assigned")


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
async def test_a_member_that_was_dropped_loses_its_partitions_and_joins_again(
    floodmark: BrokerThread,
    consumer: Consumer,
    floodmark_topic: str,
    journal: Journal,
    error: str,
) -> None:
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    floodmark.faults.fail("HEARTBEAT", error)
    await poll_until(consumer, journal, "assigned", "lost", "assigned")


async def test_heartbeats_that_fail_for_a_while_change_nothing(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    floodmark.faults.fail("HEARTBEAT", "COORDINATOR_NOT_AVAILABLE", times=3)
    floodmark.faults.drop("HEARTBEAT", times=2)
    async with asyncio.timeout(20):
        while sum(floodmark.faults.struck.values()) < 5:
            await consumer.poll(20)
    assert journal.events == ["assigned"]


async def test_a_refused_commit_raises_and_the_member_finds_back(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    floodmark.faults.fail("OFFSET_COMMIT", "ILLEGAL_GENERATION")
    with pytest.raises(KafkaError) as refused:
        await consumer.commit({TopicPartition(floodmark_topic, 0): 0})
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
    await poll_until(consumer, journal, "assigned", "lost", "assigned")
    await consumer.commit({TopicPartition(floodmark_topic, 0): 0})


async def test_a_commit_is_repeated_while_that_may_help(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    partition = TopicPartition(floodmark_topic, 0)
    await consumer.subscribe([floodmark_topic])
    await poll_until_assigned(consumer)
    floodmark.faults.fail("OFFSET_COMMIT", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    floodmark.faults.drop("OFFSET_COMMIT", handled=True)
    await consumer.commit({partition: OffsetAndMetadata(0, "here")})
    assert await consumer.committed([partition]) == {partition: OffsetAndMetadata(0, "here")}


async def test_commits_in_the_background_keep_their_order(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    partition = TopicPartition(floodmark_topic, 0)
    await consumer.assign([partition])
    floodmark.faults.fail("OFFSET_COMMIT", "COORDINATOR_NOT_AVAILABLE", times=3)
    tasks = [consumer.commit_nowait({partition: number}) for number in range(5)]
    await asyncio.gather(*tasks)
    assert (await consumer.committed([partition]))[partition].offset == 4


async def test_a_cancelled_poll_loses_no_record(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    await consumer.subscribe([floodmark_topic])
    await poll_until_assigned(consumer)
    sent = [b"%d" % number for number in range(200)]
    read: list[bytes | None] = []

    async def send() -> None:
        async with Producer(floodmark.bootstrap_servers) as producer:
            for value in sent:
                await producer.send_and_wait(floodmark_topic, value)

    sending = asyncio.create_task(send())
    async with asyncio.timeout(20):
        while len(read) < len(sent):
            polling = asyncio.create_task(consumer.poll(50))
            await asyncio.wait([polling], timeout=0.001)
            polling.cancel()
            for result in await asyncio.gather(polling, return_exceptions=True):
                if isinstance(result, dict):
                    read += [record.value for records in result.values() for record in records]
    await sending
    assert read == sent


async def test_two_members_may_share_one_cluster(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    """A join waits in the coordinator for the other member, whose join must not wait behind it."""
    floodmark.create_topic("two", 2)
    async with Cluster(floodmark.bootstrap_servers, member_settings()) as cluster:
        members = [Consumer(cluster, member_settings()) for _ in range(2)]
        for member in members:
            await member.subscribe(["two"])
        async with asyncio.timeout(20):
            while [len(member.assignment) for member in members] != [1, 1]:
                await asyncio.gather(*(member.poll(20) for member in members))
        for member in members:
            await member.close()


async def test_another_subscription_takes_the_place_of_the_first(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str, journal: Journal
) -> None:
    floodmark.create_topic("other")
    await consumer.subscribe([floodmark_topic], listener=journal)
    await poll_until_assigned(consumer)
    await consumer.subscribe(["other"], listener=journal)
    await poll_until(consumer, journal, "assigned", "revoked", "assigned")
    assert consumer.assignment == [TopicPartition("other", 0)]
    await consumer.unsubscribe()
    assert consumer.assignment == []
    async with Admin(floodmark.bootstrap_servers) as admin:
        (listed,) = await admin.list_groups()
    assert listed.state == "Empty"


async def test_assigning_and_subscribing_exclude_each_other(
    floodmark: BrokerThread, consumer: Consumer, floodmark_topic: str
) -> None:
    partition = TopicPartition(floodmark_topic, 0)
    await consumer.assign([partition])
    with pytest.raises(ValueError, match="assigned manually"):
        await consumer.subscribe([floodmark_topic])
    await consumer.unsubscribe()
    await consumer.subscribe([floodmark_topic])
    with pytest.raises(ValueError, match="unsubscribe"):
        await consumer.assign([partition])
    with pytest.raises(ValueError, match="either"):
        await consumer.subscribe([floodmark_topic], pattern=".*")
    async with Consumer(floodmark.bootstrap_servers) as alone:
        with pytest.raises(ValueError, match=r"group\.id"):
            await alone.subscribe([floodmark_topic])


@pytest.mark.parametrize(
    "changes",
    [
        {"partition_assignment_strategy": "fair"},
        {"partition_assignment_strategy": ""},
        {"heartbeat_interval_ms": 1_000},
    ],
)
def test_impossible_group_settings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        member_settings(**changes)


def test_javas_names_of_assignors_are_understood() -> None:
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range"
    assert member_settings(partition_assignment_strategy=java).assignors == [
        "cooperative-sticky",
        "range",
    ]
