"""Apache Kafka's own Java client: the oldest that Kafka 4 serves, the last of 3.x and today's."""

from pathlib import Path

import pytest

from kit.broker import Broker
from kit.jars import KAFKA_3, KAFKA_4, client_jars
from kit.java_program import run_java
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

_OLDEST = "2.1.0"
_STEPS = [
    "create",
    "produce",
    "consume from the start",
    "consume from an offset",
    "consume from a time",
    "list offsets",
    "alter and describe",
    "delete",
]


@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_4])
def test_java_client_passes_the_scenario(
    broker: Broker, topic: str, base_ms: int, version: str
) -> None:
    require_tool("java", "javac", "mvn")
    program = Path(__file__).with_name("ClientScenario.java")
    output = run_java(program, client_jars(version), broker.bootstrap, topic, str(base_ms))
    assert output.splitlines() == [f"passed: {step}" for step in _STEPS]


def test_the_oldest_java_client_that_kafka_4_serves(broker: Broker, topic: str) -> None:
    require_tool("java", "javac", "mvn")
    program = Path(__file__).with_name("OldestClient.java")
    output = run_java(program, client_jars(_OLDEST), broker.bootstrap, topic)
    assert output.splitlines() == [
        "read: gzip lz4 none snappy transaction zstd zz-last",
        "committed: 3",
    ]
