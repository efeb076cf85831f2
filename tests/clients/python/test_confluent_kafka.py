"""librdkafka through confluent-kafka: the client under most languages that are not Java or Go."""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kit import scenario
from kit.broker import Broker
from kit.librdkafka import assigned_consumer, produce_run, read_to_the_end
from kit.waiting import wait_for


def test_confluent_kafka_passes_the_scenario(broker: Broker, topic: str, base_ms: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    _create(admin, topic)
    for run in scenario.runs(base_ms):
        produce_run(broker.bootstrap, topic, run)
    _consume(broker, topic, base_ms)
    _alter_and_describe(admin, topic)
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics)


def _create(admin: AdminClient, topic: str) -> None:
    config = {"retention.ms": scenario.CREATE_RETENTION_MS}
    new_topic = NewTopic(topic, scenario.CREATE_PARTITIONS, 1, config=config)
    admin.create_topics([new_topic])[topic].result(30)
    wait_for(lambda: topic in admin.list_topics(timeout=10).topics)


def _consume(broker: Broker, topic: str, base_ms: int) -> None:
    with assigned_consumer(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read_to_the_end(consumer, 0, base_ms)
        consumer.seek(TopicPartition(topic, 0, scenario.FROM_OFFSET))
        read_to_the_end(consumer, scenario.FROM_OFFSET, base_ms)
        time_ms = base_ms + scenario.FROM_TIME_INDEX * 1000 - 1
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=30)
        assert found.offset == scenario.FROM_TIME_INDEX
        consumer.seek(found)
        read_to_the_end(consumer, scenario.FROM_TIME_INDEX, base_ms)
        bounds = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        assert bounds == (0, scenario.RECORD_COUNT)


def _alter_and_describe(admin: AdminClient, topic: str) -> None:
    retention = ConfigEntry(
        "retention.ms",
        scenario.ALTERED_RETENTION_MS,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[retention])
    admin.incremental_alter_configs([resource])[resource].result(30)

    def described() -> str | None:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        value: str | None = admin.describe_configs([asked])[asked].result(30)["retention.ms"].value
        return value

    wait_for(lambda: described() == scenario.ALTERED_RETENTION_MS)
    grown = NewPartitions(topic, scenario.GROWN_PARTITIONS)
    admin.create_partitions([grown])[topic].result(30)
    wait_for(
        lambda: (
            len(admin.list_topics(topic, timeout=10).topics[topic].partitions)
            == scenario.GROWN_PARTITIONS
        )
    )
