"""Kafka's own checks of what a broker must offer: to the clients, and to Kafka Streams."""

import subprocess
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.jars import KAFKA_4, classpath, jars
from kit.kafka_tools import kafka_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_TOOLS = "org.apache.kafka.tools."
_STREAMS = "org.apache.kafka:kafka-streams:" + KAFKA_4
_STREAMS_TEST = "org.apache.kafka.streams.tests.BrokerCompatibilityTest"
_STREAMS_TOPICS = ("brokerCompatibilitySourceTopic", "brokerCompatibilitySinkTopic")


def test_client_compatibility_test_finds_every_feature(broker: Broker, topic: str) -> None:
    create(broker, topic)
    features: tuple[str, ...] = (
        "offsets-for-times",
        "cluster-id",
        "create-topics",
        "describe-acls",
    )
    features += ("describe-configs", "idempotent-producer")
    expectations = [word for name in features for word in (f"--{name}-supported", "true")]
    output = kafka_tool(
        _TOOLS + "ClientCompatibilityTest",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--num-cluster-nodes", "1", "--expect-record-too-large-exception", "false"),
        *expectations,
    )
    assert output.splitlines()[-1] == "SUCCESS."


def test_streams_count_a_record_exactly_once(broker: Broker, tmp_path: Path) -> None:
    """It ends when the counted record has come out; it says on its error output what went wrong."""
    for name in _STREAMS_TOPICS:
        create(broker, name)
    properties = tmp_path / "streams.properties"
    state = tmp_path / "state"
    properties.write_text(f"bootstrap.servers={broker.bootstrap}\nstate.dir={state}\n")
    libraries = jars(_STREAMS, f"{_STREAMS}:test", "org.slf4j:slf4j-nop:1.7.36")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", classpath(libraries), _STREAMS_TEST, str(properties), "exactly_once_v2"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert outcome.stdout.splitlines()[-1] == "close Kafka Streams", outcome
    assert outcome.stderr == ""


def create(broker: Broker, topic: str) -> None:
    run(broker, "TopicCommand", "--create", "--topic", topic, "--partitions", "1")


def run(broker: Broker, tool: str, *arguments: str) -> str:
    return kafka_tool(_TOOLS + tool, "--bootstrap-server", broker.bootstrap, *arguments)
