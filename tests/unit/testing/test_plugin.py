"""The fixtures that users get, used as users use them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from floodmark.config.errors import ConfigError
from floodmark.testing import Broker
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


def test_a_client_produces_and_consumes(floodmark: Broker, floodmark_topic: str) -> None:
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 0
    assert consume(floodmark.bootstrap_servers, floodmark_topic) == b"hello"


def test_a_fault_is_met_and_survived_by_the_client(floodmark: Broker, floodmark_topic: str) -> None:
    floodmark.faults.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 0
    assert floodmark.faults.struck["PRODUCE"] == 2
    assert floodmark.faults.struck[ApiKey.PRODUCE] == 2
    assert floodmark.faults.struck == {"PRODUCE": 2}
    assert floodmark.faults.struck["FETCH"] == 0
    with pytest.raises(ValueError, match="'PRODUCES' is not a valid ApiKey"):
        floodmark.faults.struck["PRODUCES"]
    assert "PRODUCE" in floodmark.faults.struck
    assert "FETCH" not in floodmark.faults.struck
    floodmark.faults.reset()
    assert not floodmark.faults.struck


def test_a_lost_answer_makes_a_plain_producer_send_twice(
    floodmark: Broker, floodmark_topic: str
) -> None:
    floodmark.faults.drop("PRODUCE", handled=True)
    assert produce(floodmark.bootstrap_servers, floodmark_topic, b"hello") == 1


def test_topics_are_made_with_partitions_and_settings(floodmark: Broker) -> None:
    configs: dict[str, Any] = {"cleanup.policy": "compact", "segment.ms": 1000, "preallocate": True}
    name = floodmark.create_topic("orders", 3, configs)
    image = floodmark.broker.metadata.image
    assert image.config("topic", name)["segment.ms"] == "1000"
    assert image.config("topic", name)["preallocate"] == "true"
    assert len(image.topics[name].partitions) == 3
    assert image.config("topic", name)["cleanup.policy"] == "compact"
    with pytest.raises(RuntimeError, match="TOPIC_ALREADY_EXISTS"):
        floodmark.create_topic("orders")


async def test_it_serves_asyncio_tests_too(floodmark: Broker) -> None:
    from floodmark.client.admin.admin import Admin

    async with Admin(floodmark.bootstrap_servers) as admin:
        assert await admin.list_topics() == []


class TestWithSettings:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, int | bool]:
        return {"num.partitions": 5, "auto.create.topics.enable": False}

    def test_settings_can_be_overridden(self, floodmark: Broker) -> None:
        floodmark.create_topic("wide", -1)
        assert len(floodmark.broker.metadata.image.topics["wide"].partitions) == 5
        assert not floodmark.broker.config.get_bool("auto.create.topics.enable")


def test_the_plugin_imports_nothing_of_the_broker_until_it_is_asked() -> None:
    program = (
        "import sys, floodmark.testing.plugin\n"
        "print(sorted(m for m in sys.modules if m.startswith('floodmark.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['floodmark.testing', 'floodmark.testing.plugin']"


def test_pytest_does_not_rewrite_the_broker(tmp_path: Path) -> None:
    """An installed package with a plugin is marked for it, which parses modules on two threads."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('floodmark', 'helper')\n"
    )
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "test_it.py").write_text(
        "import helper\n"
        "from floodmark.broker import preload\n"
        "def test_it():\n"
        "    assert type(helper.__spec__.loader).__name__ == 'AssertionRewritingHook'\n"
        "    assert type(preload.__spec__.loader).__name__ == 'SourceFileLoader'\n"
    )
    assert run_pytest(tmp_path).startswith("1 passed")


def run_pytest(folder: Path) -> str:
    """Runs the tests of this folder in one process. Returns how they ended."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run(
        [*command, "--rootdir", folder, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.rstrip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mesage.max.bytes": "1000"}, "unknown setting mesage.max.bytes"),
        ({"listeners": "SASL_SSL://127.0.0.1:0"}, "GSSAPI, which is not served"),
    ],
)
def test_a_setting_that_would_do_nothing_fails_the_test(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Broker(tmp_path, settings)


SHARED = """
import pytest
from confluent_kafka import Producer

topics = set()


@pytest.fixture(scope="module")
def address_for_a_module(floodmark_session):
    '''Fixtures of any scope may build on the shared broker.'''
    return floodmark_session.bootstrap_servers


@pytest.mark.parametrize("number", [1, 2])
def test_it(floodmark_session, floodmark_session_topic, address_for_a_module, number):
    assert address_for_a_module == floodmark_session.bootstrap_servers
    assert not floodmark_session.faults.struck
    offsets = []
    producer = Producer({"bootstrap.servers": address_for_a_module, "retry.backoff.ms": 10})
    note = lambda _, message: offsets.append(message.offset())
    producer.produce(floodmark_session_topic, b"hello", on_delivery=note)
    assert producer.flush(20) == 0
    assert offsets == [0]
    assert floodmark_session_topic.startswith(f"test_it-{number}-")
    topics.add(floodmark_session_topic)
    assert len(topics) == number
    floodmark_session.faults.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=100)
    floodmark_session.stop()
"""


def test_tests_share_a_broker_and_have_a_topic_each(tmp_path: Path) -> None:
    """The first of them leaves faults and a stopped broker behind."""
    (tmp_path / "test_shared.py").write_text(SHARED)
    assert run_pytest(tmp_path).startswith("2 passed")


def test_a_fault_that_has_no_such_name_is_refused(floodmark: Broker) -> None:
    with pytest.raises(ValueError, match="'NOPE' is not a valid ErrorCode"):
        floodmark.faults.fail("PRODUCE", "NOPE")
    with pytest.raises(ValueError, match="'PRODUCES' is not a valid ApiKey"):
        floodmark.faults.delay("PRODUCES", 1)
