"""aiokafka: the asyncio client. It holds no idempotence back: both kinds run."""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from kit import scenario
from kit.broker import Broker


async def test_aiokafka_passes_the_scenario(broker: Broker, topic: str, base_ms: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await _create(admin, topic)
        for run in scenario.runs(base_ms):
            await _produce(broker, topic, run)
        await _consume(broker, TopicPartition(topic, 0), base_ms)
        await _alter_and_describe(admin, topic)
        await admin.delete_topics([topic])
        await _wait_for(lambda: _is_listed(admin, topic), False)
    finally:
        await admin.close()


async def _create(admin: AIOKafkaAdminClient, topic: str) -> None:
    config = {"retention.ms": scenario.CREATE_RETENTION_MS}
    new_topic = NewTopic(topic, scenario.CREATE_PARTITIONS, 1, topic_configs=config)
    answer = await admin.create_topics([new_topic])
    assert [error_code for _, error_code, *_ in answer.topic_errors] == [0]
    await _wait_for(lambda: _is_listed(admin, topic), True)


async def _is_listed(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic in await admin.list_topics()


async def _produce(broker: Broker, topic: str, run: scenario.Run) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if run.codec == "none" else run.codec,
        enable_idempotence=run.idempotent,
        acks="all" if run.idempotent else 1,
        linger_ms=50,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            for record in run.records
        ]
        assert [(await each).offset for each in sent] == list(run.numbers)
    finally:
        await producer.stop()


async def _consume(broker: Broker, partition: TopicPartition, base_ms: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        await _read_to_the_end(consumer, 0, base_ms)
        consumer.seek(partition, scenario.FROM_OFFSET)
        await _read_to_the_end(consumer, scenario.FROM_OFFSET, base_ms)
        time_ms = base_ms + scenario.FROM_TIME_INDEX * 1000 - 1
        found = (await consumer.offsets_for_times({partition: time_ms}))[partition]
        assert (found.offset, found.timestamp) == (scenario.FROM_TIME_INDEX, time_ms + 1)
        consumer.seek(partition, found.offset)
        await _read_to_the_end(consumer, scenario.FROM_TIME_INDEX, base_ms)
        assert await consumer.end_offsets([partition]) == {partition: scenario.RECORD_COUNT}
    finally:
        await consumer.stop()


async def _read_to_the_end(consumer: AIOKafkaConsumer, first: int, base_ms: int) -> None:
    for number in range(first, scenario.RECORD_COUNT):
        message = await asyncio.wait_for(consumer.getone(), 30)
        headers = tuple(message.headers)
        got = scenario.Expected(message.key, message.value, headers, message.timestamp)
        assert message.offset == number
        assert got == scenario.expected_record(number, base_ms)


async def _alter_and_describe(admin: AIOKafkaAdminClient, topic: str) -> None:
    altered = {"retention.ms": scenario.ALTERED_RETENTION_MS}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, altered)])

    async def described() -> object:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})
        (answer,) = await admin.describe_configs([asked])
        ((error_code, _, _, _, entries),) = answer.resources
        return (error_code, *entries[0][:2])

    await _wait_for(described, (0, "retention.ms", scenario.ALTERED_RETENTION_MS))
    await admin.create_partitions({topic: NewPartitions(scenario.GROWN_PARTITIONS)})

    async def partitions() -> object:
        (described_topic,) = await admin.describe_topics([topic])
        return len(described_topic["partitions"])

    await _wait_for(partitions, scenario.GROWN_PARTITIONS)


async def _wait_for(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    async with asyncio.timeout(30):
        while await ask() != expected:  # noqa: ASYNC110 - the broker sends no event for it
            await asyncio.sleep(0.02)
