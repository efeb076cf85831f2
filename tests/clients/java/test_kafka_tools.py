"""Apache Kafka 4.3.0's command line tools work on the broker, and read the files it leaves."""

import json
import re
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import kafka_tool, verify_segments
from kit.target import broker_under_test
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_TOOLS = "org.apache.kafka.tools."
_TOPIC = _TOOLS + "TopicCommand"
_CONFIG = "kafka.admin.ConfigCommand"
_OFFSETS = _TOOLS + "GetOffsetShell"


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tool("java", "mvn")


def _run(broker: Broker, tool: str, *arguments: str) -> str:
    return kafka_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments)


def test_topic_command_creates_describes_alters_and_deletes(broker: Broker, topic: str) -> None:
    settings = ["--partitions", "3", "--config", "retention.ms=86400000"]
    assert f"Created topic {topic}." in _run(
        broker, _TOPIC, "--create", "--topic", topic, *settings
    )
    described = _run(broker, _TOPIC, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=86400000" in described
    assert re.search(r"TopicId: [\w-]{22}\t", described)
    assert len(re.findall(r"Leader: (\d+)\tReplicas: \1\tIsr: \1", described)) == 3
    _run(broker, _TOPIC, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in _run(broker, _TOPIC, "--describe", "--topic", topic)
    assert topic in _run(broker, _TOPIC, "--list").split()
    _run(broker, _TOPIC, "--delete", "--topic", topic)
    assert topic not in _run(broker, _TOPIC, "--list").split()


def test_config_command_alters_and_describes_topics_and_brokers(broker: Broker, topic: str) -> None:
    _run(broker, _TOPIC, "--create", "--topic", topic)
    added = "retention.ms=5000000,max.message.bytes=2000000"
    _run(broker, _CONFIG, "--alter", "--topic", topic, "--add-config", added)
    described = _run(broker, _CONFIG, "--describe", "--topic", topic)
    assert (
        "max.message.bytes=2000000 sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}" in described
    )
    _run(broker, _CONFIG, "--alter", "--topic", topic, "--delete-config", "max.message.bytes")
    described = _run(broker, _CONFIG, "--describe", "--topic", topic)
    assert "max.message.bytes" not in described
    assert "retention.ms=5000000" in described
    node_id = _node_id(broker, topic)
    _run(
        broker, _CONFIG, "--alter", "--broker", node_id, "--add-config", "log.retention.ms=70000000"
    )
    described = _run(broker, _CONFIG, "--describe", "--broker", node_id)
    assert (
        "log.retention.ms=70000000 sensitive=false synonyms={"
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=70000000, "
        "DEFAULT_CONFIG:log.retention.hours=168}" in described
    )
    everything = _run(broker, _CONFIG, "--describe", "--broker", node_id, "--all")
    assert "\n  num.io.threads=8 " in everything
    _run(broker, _CONFIG, "--alter", "--broker", node_id, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in _run(broker, _CONFIG, "--describe", "--broker", node_id)


def _node_id(broker: Broker, topic: str) -> str:
    described = _run(broker, _TOPIC, "--describe", "--topic", topic)
    found = re.search(r"Leader: (\d+)", described)
    assert found is not None
    return found.group(1)


def test_producer_tools_offsets_console_consumer_and_record_deletion(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    _run(broker, _TOPIC, "--create", "--topic", topic, "--partitions", "1")
    performance = kafka_tool(
        _TOOLS + "ProducerPerformance",
        *("--topic", topic, "--num-records", "5000", "--record-size", "100"),
        *("--throughput", "-1", "--command-property", f"bootstrap.servers={broker.bootstrap}"),
    )
    assert performance.startswith("5000 records sent")
    verifiable = _run(
        broker,
        _TOOLS + "VerifiableProducer",
        *("--topic", topic, "--max-messages", "50", "--acks", "-1", "--value-prefix", "7"),
    )
    events = [json.loads(line) for line in verifiable.splitlines()]
    sent = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in sent] == list(range(5000, 5050))
    assert (events[-1]["name"], events[-1]["acked"]) == ("tool_data", 50)
    assert f"{topic}:0:5050" in _run(broker, _OFFSETS, "--topic", topic).splitlines()

    consumed = _run(
        broker,
        _TOOLS + "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", "0", "--offset", "5000", "--max-messages", "50"),
        *("--formatter-property", "print.offset=true", "--timeout-ms", "30000"),
    )
    assert consumed.splitlines() == [f"Offset:{5000 + i}\t7.{i}" for i in range(50)]

    wanted = {"topic": topic, "partition": 0, "offset": 10}
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"partitions": [wanted], "version": 1}))
    deleted = _run(broker, _TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(request))
    assert f"partition: {topic}-0\tlow_watermark: 10" in deleted
    earliest = _run(broker, _OFFSETS, "--topic", topic, "--time", "earliest")
    assert earliest.split() == [f"{topic}:0:10"]

    directories = _run(broker, _TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic)
    (described,) = json.loads(directories.splitlines()[-1])["brokers"]
    (directory,) = described["logDirs"]
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 500_000


def test_dump_log_segments_finds_nothing_wrong_with_a_stopped_brokers_files(tmp_path: Path) -> None:
    """Small segments and a small index interval, so that there are many of both."""
    settings = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "1024"}
    with broker_under_test(tmp_path, settings) as broker:
        for codec in ("none", "lz4"):
            name = f"dumped-{codec}"
            _run(broker, _TOPIC, "--create", "--topic", name, "--partitions", "1")
            kafka_tool(
                _TOOLS + "ProducerPerformance",
                *("--topic", name, "--num-records", "30000", "--record-size", "100"),
                *("--throughput", "-1", "--command-property"),
                *(f"bootstrap.servers={broker.bootstrap}", f"compression.type={codec}"),
            )
    for name, segments in (("dumped-none-0", 3), ("dumped-lz4-0", 1)):
        folder = broker.data_dir / name
        assert len(list(folder.glob("*.log"))) >= segments
        for version in (KAFKA_3, KAFKA_4):
            dump = verify_segments(folder, version)
            assert len(re.findall(r"^\| offset: ", dump, re.MULTILINE)) == 30_000
