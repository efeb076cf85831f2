"""Groups, transactions, features and elections through our admin client (FLOODMARK_TEST_TARGET)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.admin.group_admin import GroupDescription
from floodmark.client.admin.transaction_admin import TransactionDescription
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group_offsets import OffsetAndMetadata
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ElectionType, UpgradeType
from kit.broker import Broker


@pytest.fixture
async def admin(broker: Broker) -> AsyncIterator[Admin]:
    async with Admin(broker.bootstrap) as admin:
        yield admin


@pytest.fixture
async def partition(admin: Admin, topic: str) -> TopicPartition:
    await admin.create_topic(NewTopic(topic, 1))
    return TopicPartition(topic, 0)


def code_of(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


async def test_an_active_group_is_listed_and_described_and_not_deleted(
    broker: Broker, admin: Admin, partition: TopicPartition
) -> None:
    group = f"group-{partition.topic}"
    settings = ConsumerSettings(group_id=group, client_id="reader", group_instance_id="i-1")
    async with Consumer(broker.bootstrap, settings) as consumer:
        await consumer.subscribe([partition.topic])
        while not consumer.assignment:
            await consumer.poll(100)
        listed = {item.group_id: item for item in await admin.list_groups()}
        assert (listed[group].protocol_type, listed[group].state) == ("consumer", "Stable")
        assert listed[group].type.lower() == "classic"
        assert group not in {item.group_id for item in await admin.list_groups(states=["Empty"])}
        described = (await admin.describe_groups([group]))[group]
        assert isinstance(described, GroupDescription)
        assert (described.state, described.assignor) == ("Stable", "range")
        assert described.coordinator is not None
        (member,) = described.members
        assert (member.client_id, member.group_instance_id) == ("reader", "i-1")
        assert member.assignment == (partition,)
        deleted = await admin.delete_groups([group])
        assert code_of(deleted[group]) is ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(KafkaError) as refused:
            for error in (await admin.alter_group_offsets(group, {partition: 1})).values():
                raise error
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_of_an_empty_group_are_altered_and_deleted(
    admin: Admin, partition: TopicPartition
) -> None:
    group = f"group-{partition.topic}"
    assert await admin.alter_group_offsets(group, {partition: OffsetAndMetadata(3, "x")}) == {}
    assert await admin.list_group_offsets(group) == {partition: OffsetAndMetadata(3, "x")}
    described = (await admin.describe_groups([group]))[group]
    assert isinstance(described, GroupDescription)
    assert described.is_empty
    assert await admin.delete_group_offsets(group, [partition]) == {partition: None}
    assert await admin.list_group_offsets(group) == {}


async def test_a_deleted_group_is_gone(admin: Admin, partition: TopicPartition) -> None:
    group = f"group-{partition.topic}"
    await admin.alter_group_offsets(group, {partition: 3})
    assert await admin.delete_groups([group]) == {group: None}
    assert code_of((await admin.delete_groups([group]))[group]) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of((await admin.describe_groups([group]))[group]) is ErrorCode.GROUP_ID_NOT_FOUND
    assert await admin.list_group_offsets(group) == {}


async def test_an_open_transaction_is_listed_described_and_fenced(
    broker: Broker, admin: Admin, partition: TopicPartition
) -> None:
    name = f"tx-{partition.topic}"
    async with Producer(broker.bootstrap, ProducerSettings(transactional_id=name)) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(partition.topic, b"never")
        listed = {t.transactional_id: t for t in await admin.list_transactions(states=["Ongoing"])}
        assert name in listed
        described = (await admin.describe_transactions([name]))[name]
        assert isinstance(described, TransactionDescription)
        assert described.state == "Ongoing"
        assert described.partitions == [partition]
        assert described.timeout_ms == 60_000
        assert described.start_time_ms is not None
        assert described.producer_id == listed[name].producer_id
        await admin.fence_producer(name)
        with pytest.raises(KafkaError) as fenced:
            await producer.commit_transaction()
        assert fenced.value.code is ErrorCode.PRODUCER_FENCED
    missing = (await admin.describe_transactions([f"{name}-not"]))[f"{name}-not"]
    assert code_of(missing) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_a_transaction_is_ended_in_one_partition_by_a_marker(
    broker: Broker, admin: Admin, partition: TopicPartition
) -> None:
    settings = ProducerSettings(transactional_id=f"tx-{partition.topic}")
    async with Producer(broker.bootstrap, settings) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(partition.topic, b"never")
        producers = (await admin.describe_producers([partition]))[partition]
        assert not isinstance(producers, KafkaError)
        (hanging,) = producers
        assert hanging.current_transaction_start_offset == 0
        await admin.abort_hanging_transaction(
            partition,
            producer_id=hanging.producer_id,
            producer_epoch=hanging.producer_epoch,
            coordinator_epoch=max(0, hanging.coordinator_epoch),
        )
        async with Consumer(
            broker.bootstrap, ConsumerSettings(isolation_level="read_committed")
        ) as consumer:
            assert await consumer.end_offsets([partition]) == {partition: 2}


async def test_preferred_leaders_are_elected_where_needed(
    admin: Admin, partition: TopicPartition
) -> None:
    answers = await admin.elect_leaders([partition])
    assert code_of(answers[partition]) is ErrorCode.ELECTION_NOT_NEEDED
    assert await admin.elect_leaders() == {}
    missing = TopicPartition(f"{partition.topic}-not", 0)
    answers = await admin.elect_leaders([missing], election_type=ElectionType.UNCLEAN)
    assert code_of(answers[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_transactions_work_in_either_protocol_and_over_the_change(
    broker: Broker, admin: Admin, partition: TopicPartition
) -> None:
    features = await admin.describe_features()
    assert features.supported["transaction.version"][1] >= 2
    assert features.finalized["transaction.version"] == 2
    topic = partition.topic
    try:
        async with Producer(
            broker.bootstrap, ProducerSettings(transactional_id=f"tx-{topic}")
        ) as early:
            await early.init_transactions()
            async with early.transaction():
                await early.send(topic, b"second protocol")
            await admin.update_features(
                {"transaction.version": 0}, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE
            )
            await _until_level(admin, 0)
            async with Producer(
                broker.bootstrap, ProducerSettings(transactional_id=f"tx-late-{topic}")
            ) as late:
                await late.init_transactions()
                for number in range(6):
                    late.begin_transaction()
                    await late.send(topic, b"%d" % number)
                    await late.send_offsets_to_transaction({partition: number}, f"group-{topic}")
                    if number % 2:
                        await late.abort_transaction()
                    else:
                        await late.commit_transaction()
        offsets = await admin.list_group_offsets(f"group-{topic}")
        assert offsets == {partition: OffsetAndMetadata(4)}
        assert await _committed(broker, partition) == [b"second protocol", b"0", b"2", b"4"]
    finally:
        await admin.update_features({"transaction.version": 2})
        await _until_level(admin, 2)


async def _until_level(admin: Admin, level: int) -> None:
    async with asyncio.timeout(10):
        while (await admin.describe_features()).finalized.get("transaction.version", 0) != level:
            pass


async def _committed(broker: Broker, partition: TopicPartition) -> list[bytes | None]:
    settings = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest")
    values: list[bytes | None] = []
    async with Consumer(broker.bootstrap, settings) as consumer:
        await consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll()).values():
                values += [record.value for record in records]
    return values


async def test_a_feature_that_cannot_move_says_why(admin: Admin) -> None:
    with pytest.raises(KafkaError) as refused:
        await admin.update_features({"transaction.version": 99}, validate_only=True)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert "transaction.version" in refused.value.text
