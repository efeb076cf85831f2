"""kafka-python: the pure Python client."""

import warnings

from kit import scenario
from kit.broker import Broker
from kit.tools import missing
from kit.waiting import wait_for

with warnings.catch_warnings():
    # Its own import calls what Python 3.11 deprecates; ours must stay strict.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType


def test_kafka_python_passes_the_scenario(broker: Broker, topic: str, base_ms: int) -> None:
    if not kafka.codec.has_snappy():
        missing("kafka-python compresses with snappy only when python-snappy is installed")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        _create(admin, topic)
        for run in scenario.runs(base_ms):
            _produce(broker, topic, run)
        _consume(broker, TopicPartition(topic, 0), base_ms)
        _alter_and_describe(admin, topic)
        admin.delete_topics([topic])
        wait_for(lambda: topic not in admin.list_topics())
    finally:
        admin.close()


def _create(admin: KafkaAdminClient, topic: str) -> None:
    options = {
        "num_partitions": scenario.CREATE_PARTITIONS,
        "replication_factor": 1,
        "configs": {"retention.ms": scenario.CREATE_RETENTION_MS},
    }
    admin.create_topics({topic: options}, wait_for_metadata=True)
    assert topic in admin.list_topics()


def _produce(broker: Broker, topic: str, run: scenario.Run) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if run.codec == "none" else run.codec,
        enable_idempotence=run.idempotent,
        acks="all" if run.idempotent else 1,
        linger_ms=50,
    )
    try:
        sent = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp_ms,
            )
            for record in run.records
        ]
        assert [each.get(timeout=30).offset for each in sent] == list(run.numbers)
    finally:
        producer.close()


def _consume(broker: Broker, partition: TopicPartition, base_ms: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, enable_auto_commit=False, consumer_timeout_ms=30_000
    )
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        _read_to_the_end(consumer, 0, base_ms)
        consumer.seek(partition, scenario.FROM_OFFSET)
        _read_to_the_end(consumer, scenario.FROM_OFFSET, base_ms)
        time_ms = base_ms + scenario.FROM_TIME_INDEX * 1000 - 1
        found = consumer.offsets_for_times({partition: time_ms})[partition]
        assert found.offset == scenario.FROM_TIME_INDEX
        assert found.timestamp == time_ms + 1
        consumer.seek(partition, found.offset)
        _read_to_the_end(consumer, scenario.FROM_TIME_INDEX, base_ms)
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: scenario.RECORD_COUNT}
    finally:
        consumer.close()


def _read_to_the_end(consumer: KafkaConsumer, first: int, base_ms: int) -> None:
    for number in range(first, scenario.RECORD_COUNT):
        message = next(consumer)
        headers = tuple(message.headers)
        got = scenario.Expected(message.key, message.value, headers, message.timestamp)
        assert message.offset == number
        assert got == scenario.expected_record(number, base_ms)


def _alter_and_describe(admin: KafkaAdminClient, topic: str) -> None:
    altered = {"retention.ms": scenario.ALTERED_RETENTION_MS}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, altered)])

    def described() -> str:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic)
        (by_name,) = admin.describe_configs([asked]).values()
        value: str = by_name[topic]["retention.ms"]["value"]
        return value

    wait_for(lambda: described() == scenario.ALTERED_RETENTION_MS)
    admin.create_partitions({topic: scenario.GROWN_PARTITIONS})
    wait_for(
        lambda: len(admin.describe_topics([topic])[0]["partitions"]) == scenario.GROWN_PARTITIONS
    )
