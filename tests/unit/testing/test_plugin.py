"""The fixtures that users get, used as users use them."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from floodmark.config.errors import ConfigError
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.api_keys import ApiKey


def produce(bootstrap_servers: str, topic: str, value: bytes) -> int:
    """Sends one record and returns its offset."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "retry.backoff.ms": 10})
    producer.produce(topic, value, on_delivery=lambda _, message: offsets.append(message.offset()))
    assert producer.flush(20) == 0
    return offsets[0]


def consume(bootstrap_servers: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_a_client_produces_and_consumes(floodmark: BrokerThread, floodmark_topic: str) -> None:
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 0
    assert consume(floodmark.bootstrap_servers, floodmark_topic) == b"hello"


def test_a_fault_is_met_and_survived_by_the_client(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    floodmark.faults.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 0
    assert floodmark.faults.struck[ApiKey.PRODUCE] == 2


def test_a_lost_answer_makes_a_plain_producer_send_twice(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    floodmark.faults.drop("PRODUCE", handled=True)
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 1


def test_topics_are_made_with_partitions_and_settings(floodmark: BrokerThread) -> None:
    name = floodmark.create_topic("orders", 3, {"cleanup.policy": "compact"})
    image = floodmark.broker.controller.image
    assert len(image.topics[name].partitions) == 3
    assert image.config("topic", name)["cleanup.policy"] == "compact"
    with pytest.raises(RuntimeError, match="TOPIC_ALREADY_EXISTS"):
        floodmark.create_topic("orders")


async def test_it_serves_asyncio_tests_too(floodmark: BrokerThread) -> None:
    from floodmark.client.admin import Admin

    async with Admin(floodmark.bootstrap_servers) as admin:
        assert await admin.list_topics() == []


class TestWithSettings:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, str]:
        return {"num.partitions": "5"}

    def test_settings_can_be_overridden(self, floodmark: BrokerThread) -> None:
        floodmark.create_topic("wide", -1)
        assert len(floodmark.broker.controller.image.topics["wide"].partitions) == 5


def test_the_plugin_imports_nothing_of_the_broker_until_it_is_asked() -> None:
    program = (
        "import sys, floodmark.testing.plugin\n"
        "print(sorted(m for m in sys.modules if m.startswith('floodmark.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['floodmark.testing', 'floodmark.testing.plugin']"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mesage.max.bytes": "1000"}, "there is no setting mesage.max.bytes"),
        ({"listeners": "SSL://127.0.0.1:0"}, "only PLAINTEXT is"),
    ],
)
def test_a_setting_that_would_do_nothing_fails_the_test(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        BrokerThread(tmp_path, settings)


def test_a_fault_that_has_no_such_name_is_refused(floodmark: BrokerThread) -> None:
    with pytest.raises(ValueError, match="'NOPE' is no ErrorCode"):
        floodmark.faults.fail("PRODUCE", "NOPE")
    with pytest.raises(ValueError, match="'PRODUCES' is no ApiKey"):
        floodmark.faults.delay("PRODUCES", 1)
