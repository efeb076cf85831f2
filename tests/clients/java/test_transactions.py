"""Kafka's own transactional programs and tools, in both protocols (KIP-890), on the broker."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kit.broker import Broker
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import dump_segments, kafka_tool
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_TOOLS = "org.apache.kafka.tools."
RECORDS = 1000


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tool("java", "mvn")


@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_4])
def test_the_message_copier_copies_exactly_once(broker: Broker, topic: str, version: str) -> None:
    source, target, name = topic + "-in", topic + "-out", topic + "-copier"
    _run(broker, "VerifiableProducer", "--topic", source, "--max-messages", str(RECORDS))
    copied = kafka_tool(
        _TOOLS + "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--input-topic", source, "--output-topic", target),
        *("--input-partition", "0", "--consumer-group", name, "--transactional-id", name),
        *("--transaction-size", "50", "--max-messages", str(RECORDS), "--enable-random-aborts"),
        version=version,
    )
    assert json.loads(copied.splitlines()[-1])["consumed"] == RECORDS
    values = _read_committed(broker, target)
    assert sorted(values, key=int) == [str(number) for number in range(RECORDS)]

    listed = _run(broker, "TransactionsCommand", "list")
    assert any(line.split()[0] == name for line in listed.splitlines()[1:] if line)
    described = _run(broker, "TransactionsCommand", "describe", "--transactional-id", name)
    assert "CompleteCommit" in described
    hanging = _run(broker, "TransactionsCommand", "find-hanging", "--broker-id", "1")
    assert source not in hanging
    assert target not in hanging


def test_the_transaction_log_is_read_by_kafkas_decoder(broker: Broker, topic: str) -> None:
    source, name = topic + "-in", topic + "-copier"
    _run(broker, "VerifiableProducer", "--topic", source, "--max-messages", "10")
    kafka_tool(
        _TOOLS + "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--input-topic", source),
        *("--output-topic", topic + "-out", "--input-partition", "0", "--consumer-group", name),
        *("--transactional-id", name, "--transaction-size", "10", "--max-messages", "10"),
    )
    logs = [log for log in broker.data_dir.glob("__transaction_state-*/*.log") if _size(log)]
    records = dump_segments(logs, "--transaction-log-decoder")
    assert f'"transactionalId":"{name}"' in records
    assert '"clientTransactionVersion":2' in records
    offsets = [log for log in broker.data_dir.glob("__consumer_offsets-*/*.log") if _size(log)]
    assert f'"group":"{name}"' in dump_segments(offsets, "--offsets-decoder")


def _run(broker: Broker, tool: str, *arguments: str) -> str:
    return kafka_tool(_TOOLS + tool, "--bootstrap-server", broker.bootstrap, *arguments)


def _size(path: Path) -> int:
    return path.stat().st_size


def _read_committed(broker: Broker, topic: str) -> list[str]:
    """Everything in partition 0 up to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value().decode())
    consumer.close()
    return values
