"""Our own client, against our broker and (FLOODMARK_TEST_TARGET=kafka) against Apache Kafka."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Producer as TransactionalProducer

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource, NewTopic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import ListedOffset, OffsetSpec
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ConfigOperation, ConfigSource
from kit import scenario
from kit.broker import Broker


async def test_our_client_passes_the_scenario(broker: Broker, topic: str, base_ms: int) -> None:
    async with Admin(broker.bootstrap) as admin:
        retention = {"retention.ms": scenario.CREATE_RETENTION_MS}
        await admin.create_topic(NewTopic(topic, scenario.CREATE_PARTITIONS, configs=retention))
        for run in scenario.runs(base_ms):
            await _produce(broker, topic, run)
        await _consume(broker, TopicPartition(topic, 0), base_ms)
        await _alter_and_describe(admin, topic)
        (deleted,) = await admin.delete_topics([topic])
        assert deleted.error is None
        await _wait_for(lambda: _is_listed(admin, topic), False)


async def _is_listed(admin: Admin, topic: str) -> bool:
    return topic in [item.name for item in await admin.list_topics()]


async def _produce(broker: Broker, topic: str, run: scenario.Run) -> None:
    settings = ProducerSettings(
        compression_type=run.codec,
        enable_idempotence=run.idempotent,
        acks=-1 if run.idempotent else 1,
    )
    async with Producer(broker.bootstrap, settings) as producer:
        sent = [
            await producer.send(
                topic,
                record.value,
                key=record.key,
                partition=0,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            for record in run.records
        ]
        assert [(await each).offset for each in sent] == list(run.numbers)


async def _consume(broker: Broker, partition: TopicPartition, base_ms: int) -> None:
    async with Consumer(broker.bootstrap) as consumer:
        await consumer.assign([partition])
        consumer.seek_to_beginning()
        await _read_to_the_end(consumer, 0, base_ms)
        consumer.seek(partition, scenario.FROM_OFFSET)
        await _read_to_the_end(consumer, scenario.FROM_OFFSET, base_ms)
        consumer.seek_to_timestamp(base_ms + scenario.FROM_TIME_INDEX * 1000 - 1)
        await _read_to_the_end(consumer, scenario.FROM_TIME_INDEX, base_ms)
        assert await consumer.end_offsets([partition]) == {partition: scenario.RECORD_COUNT}
        assert consumer.lag(partition) == 0


async def _read_to_the_end(consumer: Consumer, first: int, base_ms: int) -> None:
    expected = first
    async with asyncio.timeout(30):
        while expected < scenario.RECORD_COUNT:
            for records in (await consumer.poll()).values():
                for record in records:
                    got = scenario.Expected(
                        record.key, record.value, tuple(record.headers), record.timestamp
                    )
                    assert record.offset == expected
                    assert got == scenario.expected_record(expected, base_ms)
                    expected += 1


async def _alter_and_describe(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)

    async def retention() -> object:
        (described,) = await admin.describe_configs([resource], keys=["retention.ms"])
        entry = described.entries["retention.ms"]
        return entry.value, entry.source

    changes = [ConfigChange("retention.ms", scenario.ALTERED_RETENTION_MS)]
    (outcome,) = await admin.incremental_alter_configs({resource: changes})
    assert outcome.error is None
    expected = (scenario.ALTERED_RETENTION_MS, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    await _wait_for(retention, expected)
    delete = [ConfigChange("retention.ms", None, ConfigOperation.DELETE)]
    await admin.incremental_alter_configs({resource: delete})
    await _wait_for(retention, ("604800000", ConfigSource.DEFAULT_CONFIG))

    (grown,) = await admin.add_partitions({topic: scenario.GROWN_PARTITIONS})
    assert grown.error is None

    async def partitions() -> int:
        (described,) = await admin.describe_topics([topic])
        return len(described.partitions)

    await _wait_for(partitions, scenario.GROWN_PARTITIONS)


async def _wait_for(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    async with asyncio.timeout(30):
        while await ask() != expected:  # noqa: ASYNC110 - the broker sends no event for it
            await asyncio.sleep(0.02)


async def test_admin_gives_one_error_per_topic(broker: Broker, topic: str) -> None:
    async with Admin(broker.bootstrap) as admin:
        created = await admin.create_topics([NewTopic(topic), NewTopic("no/slash")])
        codes = {item.name: item.error and item.error.code for item in created}
        assert codes == {topic: None, "no/slash": ErrorCode.INVALID_TOPIC_EXCEPTION}
        with pytest.raises(KafkaError) as caught:
            await admin.create_topic(NewTopic(topic))
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        outcomes = await admin.delete_topics([topic, f"{topic}-missing"])
        assert {item.name: item.error is None for item in outcomes} == {
            topic: True,
            f"{topic}-missing": False,
        }


async def test_offsets_records_producers_and_folders_can_be_looked_at(
    broker: Broker, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(topic, 1, configs={"retention.ms": "-1"}))
        async with Producer(admin.cluster) as producer:
            for number in range(10):
                await producer.send(topic, b"x", timestamp_ms=5_000 + number)
            await producer.flush()
        listed = await admin.list_offsets({partition: OffsetSpec.MAX_TIMESTAMP})
        found = listed[partition]
        assert isinstance(found, ListedOffset)
        assert (found.offset, found.timestamp) == (9, 5_009)
        assert await admin.delete_records({partition: 4}) == {partition: 4}
        earliest = (await admin.list_offsets({partition: OffsetSpec.EARLIEST}))[partition]
        assert isinstance(earliest, ListedOffset)
        assert earliest.offset == 4
        producers = (await admin.describe_producers([partition]))[partition]
        assert not isinstance(producers, KafkaError)
        assert [item.last_sequence for item in producers] == [9]
        folders = await admin.describe_log_dirs()
        replicas = [r.partition for dirs in folders.values() for d in dirs for r in d.replicas]
        assert partition in replicas
        cluster = await admin.describe_cluster()
        assert [item.node_id for item in cluster.brokers] == list(folders)


async def test_a_broker_setting_can_be_changed_while_it_runs(broker: Broker) -> None:
    async with Admin(broker.bootstrap) as admin:
        resource = ConfigResource.broker(next(iter(admin.cluster.view.brokers)))

        async def threads() -> object:
            (described,) = await admin.describe_configs([resource], keys=["log.cleaner.threads"])
            entry = described.entries["log.cleaner.threads"]
            return entry.value, entry.source

        await admin.incremental_alter_configs(
            {resource: [ConfigChange("log.cleaner.threads", "2")]}
        )
        await _wait_for(threads, ("2", ConfigSource.DYNAMIC_BROKER_CONFIG))
        delete = [ConfigChange("log.cleaner.threads", None, ConfigOperation.DELETE)]
        await admin.incremental_alter_configs({resource: delete})
        await _wait_for(threads, ("1", ConfigSource.DEFAULT_CONFIG))


async def test_keys_and_keyless_records_reach_every_partition_in_order(
    broker: Broker, topic: str
) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(topic, 3))
    settings = ProducerSettings(batch_size=500, linger_ms=0)
    async with Producer(broker.bootstrap, settings) as producer:
        for number in range(3_000):
            key = None if number % 2 else b"key-%d" % (number % 50)
            await producer.send(topic, b"%d" % number, key=key)
    seen: dict[TopicPartition, list[int]] = {}
    async with Consumer(broker.bootstrap) as consumer:
        await consumer.assign(await consumer.partitions_of(topic))
        consumer.seek_to_beginning()
        async with asyncio.timeout(30):
            while sum(map(len, seen.values())) < 3_000:
                for partition, records in (await consumer.poll()).items():
                    numbers = [int(record.value or b"") for record in records]
                    seen.setdefault(partition, []).extend(numbers)
    assert len(seen) == 3
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sorted(n for numbers in seen.values() for n in numbers) == list(range(3_000))


async def test_a_topic_is_made_by_the_first_record(broker: Broker, topic: str) -> None:
    async with Producer(broker.bootstrap) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0


async def test_a_waiting_poll_gets_a_record_as_soon_as_it_is_there(
    broker: Broker, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    async with Producer(broker.bootstrap) as producer, Consumer(broker.bootstrap) as consumer:
        await producer.send_and_wait(topic, b"before")
        await consumer.assign([partition])
        consumer.seek_to_end()
        assert await consumer.position(partition) == 1
        polling = asyncio.create_task(consumer.poll(30_000))
        await producer.send_and_wait(topic, b"after")
        polled = await polling
        assert [record.value for record in polled[partition]] == [b"after"]


async def test_read_committed_never_shows_what_was_aborted(broker: Broker, topic: str) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(topic, 1))
    await asyncio.to_thread(_write_transactions, broker.bootstrap, topic)
    committed = await _read_values(broker, topic, "read_committed", stop_at=b"committed 3")
    assert committed == [b"committed 0", b"committed 1", b"committed 2", b"committed 3"]
    everything = await _read_values(broker, topic, "read_uncommitted", stop_at=b"committed 3")
    assert b"aborted 0" in everything


def _write_transactions(bootstrap: str, topic: str) -> None:
    producer = TransactionalProducer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True, False, True, True)):
        producer.begin_transaction()
        done = number // 2 if number < 5 else 3
        word = "committed" if commit else "aborted"
        producer.produce(topic, f"{word} {done}", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


async def _read_values(broker: Broker, topic: str, level: str, *, stop_at: bytes) -> list[bytes]:
    settings = ConsumerSettings(isolation_level=level, auto_offset_reset="earliest")
    values: list[bytes] = []
    async with Consumer(broker.bootstrap, settings) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(30):
            async for record in consumer:
                values.append(record.value or b"")
                if record.value == stop_at:
                    return values
    return values
