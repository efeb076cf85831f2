"""Apache Kafka's command line tools, 4.3.0 and 3.9.1, work on the broker and read its files."""

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
_REASSIGN = _TOOLS + "reassign.ReassignPartitionsCommand"


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tool("java", "mvn")


class Tools:
    """The tools of one release of Kafka; some options had other names in the older one."""

    def __init__(self, broker: Broker, version: str) -> None:
        self.broker = broker
        self.version = version
        is_old = version == KAFKA_3
        self.producer_property = "--producer-props" if is_old else "--command-property"
        self.formatter_property = "--property" if is_old else "--formatter-property"

    def run(self, tool: str, *arguments: str) -> str:
        at = ("--bootstrap-server", self.broker.bootstrap)
        return kafka_tool(tool, *at, *arguments, version=self.version)

    def produce(self, topic: str, records: int, *properties: str) -> str:
        return kafka_tool(
            _TOOLS + "ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--record-size", "100"),
            *("--throughput", "-1", self.producer_property),
            *(f"bootstrap.servers={self.broker.bootstrap}", *properties),
            version=self.version,
        )


@pytest.fixture(params=[KAFKA_4, KAFKA_3])
def tools(broker: Broker, request: pytest.FixtureRequest) -> Tools:
    return Tools(broker, request.param)


def test_topic_command_creates_describes_alters_and_deletes(tools: Tools, topic: str) -> None:
    settings = ["--partitions", "3", "--config", "retention.ms=86400000"]
    assert f"Created topic {topic}." in tools.run(_TOPIC, "--create", "--topic", topic, *settings)
    described = tools.run(_TOPIC, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=86400000" in described
    assert re.search(r"TopicId: [\w-]{22}\t", described)
    assert len(re.findall(r"Leader: (\d+)\tReplicas: \1\tIsr: \1", described)) == 3
    tools.run(_TOPIC, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in tools.run(_TOPIC, "--describe", "--topic", topic)
    assert topic in tools.run(_TOPIC, "--list").split()
    tools.run(_TOPIC, "--delete", "--topic", topic)
    assert topic not in tools.run(_TOPIC, "--list").split()


def test_config_command_alters_and_describes_topics_and_brokers(tools: Tools, topic: str) -> None:
    tools.run(_TOPIC, "--create", "--topic", topic)
    added = "retention.ms=5000000,max.message.bytes=2000000"
    tools.run(_CONFIG, "--alter", "--topic", topic, "--add-config", added)
    described = tools.run(_CONFIG, "--describe", "--topic", topic)
    assert (
        "max.message.bytes=2000000 sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}" in described
    )
    tools.run(_CONFIG, "--alter", "--topic", topic, "--delete-config", "max.message.bytes")
    described = tools.run(_CONFIG, "--describe", "--topic", topic)
    assert "max.message.bytes" not in described
    assert "retention.ms=5000000" in described
    node_id = _node_id(tools, topic)
    tools.run(_CONFIG, "--alter", "--broker", node_id, "--add-config", "log.retention.ms=70000000")
    described = tools.run(_CONFIG, "--describe", "--broker", node_id)
    assert (
        "log.retention.ms=70000000 sensitive=false synonyms={"
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=70000000, "
        "DEFAULT_CONFIG:log.retention.hours=168}" in described
    )
    everything = tools.run(_CONFIG, "--describe", "--broker", node_id, "--all")
    assert "\n  num.io.threads=8 " in everything
    tools.run(_CONFIG, "--alter", "--broker", node_id, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in tools.run(_CONFIG, "--describe", "--broker", node_id)


def test_config_command_alters_and_describes_groups(broker: Broker, topic: str) -> None:
    """The tool of 3.9.1 does not know that groups have settings."""
    tools = Tools(broker, KAFKA_4)
    group, setting = f"{topic}/group", "consumer.session.timeout.ms"
    entity = ("--entity-type", "groups", "--entity-name", group)
    tools.run(_CONFIG, *entity, "--alter", "--add-config", f"{setting}=50000")
    described = tools.run(_CONFIG, *entity, "--describe")
    assert (
        f"{setting}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{setting}=50000, "
        f"DEFAULT_CONFIG:group.{setting}=45000}}" in described
    )
    tools.run(_CONFIG, *entity, "--alter", "--delete-config", setting)
    assert setting not in tools.run(_CONFIG, *entity, "--describe")


def _node_id(tools: Tools, topic: str) -> str:
    described = tools.run(_TOPIC, "--describe", "--topic", topic)
    found = re.search(r"Leader: (\d+)", described)
    assert found is not None
    return found.group(1)


def test_reassignment_and_election_find_everything_in_its_place(
    tools: Tools, topic: str, tmp_path: Path
) -> None:
    tools.run(_TOPIC, "--create", "--topic", topic)
    here = {"topic": topic, "partition": 0, "replicas": [int(_node_id(tools, topic))]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [here]}))
    move = ("--reassignment-json-file", str(plan))
    started = tools.run(_REASSIGN, *move, "--execute")
    assert f"Successfully started partition reassignment for {topic}-0" in started
    verified = tools.run(_REASSIGN, *move, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    partition = ("--topic", topic, "--partition", "0")
    elected = tools.run(
        _TOOLS + "LeaderElectionCommand", "--election-type", "preferred", *partition
    )
    assert f"Valid replica already elected for partitions {topic}-0" in elected


def test_producer_tools_offsets_console_consumer_and_record_deletion(
    tools: Tools, topic: str, tmp_path: Path
) -> None:
    tools.run(_TOPIC, "--create", "--topic", topic, "--partitions", "1")
    assert tools.produce(topic, 5000).startswith("5000 records sent")
    verifiable = tools.run(
        _TOOLS + "VerifiableProducer",
        *("--topic", topic, "--max-messages", "50", "--acks", "-1", "--value-prefix", "7"),
    )
    events = [json.loads(line) for line in verifiable.splitlines()]
    sent = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in sent] == list(range(5000, 5050))
    assert (events[-1]["name"], events[-1]["acked"]) == ("tool_data", 50)
    assert f"{topic}:0:5050" in tools.run(_OFFSETS, "--topic", topic).splitlines()

    consumed = tools.run(
        _TOOLS + "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", "0", "--offset", "5000", "--max-messages", "50"),
        *(tools.formatter_property, "print.offset=true", "--timeout-ms", "30000"),
    )
    assert consumed.splitlines() == [f"Offset:{5000 + i}\t7.{i}" for i in range(50)]

    wanted = {"topic": topic, "partition": 0, "offset": 10}
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"partitions": [wanted], "version": 1}))
    deleted = tools.run(_TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(request))
    assert f"partition: {topic}-0\tlow_watermark: 10" in deleted
    earliest = tools.run(_OFFSETS, "--topic", topic, "--time", "earliest")
    assert earliest.split() == [f"{topic}:0:10"]

    directories = tools.run(_TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic)
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
        tools = Tools(broker, KAFKA_4)
        for codec in ("none", "lz4"):
            name = f"dumped-{codec}"
            tools.run(_TOPIC, "--create", "--topic", name, "--partitions", "1")
            tools.produce(name, 30_000, f"compression.type={codec}")
    for name, segments in (("dumped-none-0", 3), ("dumped-lz4-0", 1)):
        folder = broker.data_dir / name
        assert len(list(folder.glob("*.log"))) >= segments
        for version in (KAFKA_3, KAFKA_4):
            dump = verify_segments(folder, version)
            assert len(re.findall(r"^\| offset: ", dump, re.MULTILINE)) == 30_000
