"""A cleanly stopped data folder of Apache Kafka opens in our broker, and nothing in it is lost."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from floodmark.config.settings import TOPIC_SETTINGS_BY_NAME
from kit import scenario
from kit.apache_kafka import kraft_broker, zookeeper_broker
from kit.broker import Broker, floodmark_broker
from kit.librdkafka import assigned_consumer, produce_run, read_to_the_end
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_KRAFT_LOG = "__cluster_metadata-0"
_ALL_RECORDS = scenario.RECORD_COUNT + 25
_GROUP = "readers"
_COMMITTED = 57
_LOADING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
Start = Callable[[Path], AbstractContextManager[Broker]]


@pytest.fixture(params=[kraft_broker, zookeeper_broker], ids=["4.3.0-kraft", "3.9.1-zookeeper"])
def kafka(request: pytest.FixtureRequest) -> Start:
    require_tool("java", "mvn")
    start: Start = request.param
    return start


def test_a_stopped_kafka_folder_is_adopted_record_for_record(
    kafka: Start, tmp_path: Path, base_ms: int
) -> None:
    with kafka(tmp_path) as broker:
        _fill(broker, base_ms)
        before = _identity(broker)
    metadata_before = _digests(tmp_path / "data" / _KRAFT_LOG)

    with floodmark_broker(tmp_path) as broker:
        assert _identity(broker) == before
        _check_records(broker, base_ms, scenario.RECORD_COUNT)
        _check_group(broker)
        _check_warning(broker)
        produce_run(broker.bootstrap, "kept", _later_run(base_ms))
        _check_records(broker, base_ms, _ALL_RECORDS)
    assert broker.process.output().count("topics found in the log folders") == 1

    with floodmark_broker(tmp_path) as broker:
        assert _identity(broker) == before
        _check_records(broker, base_ms, _ALL_RECORDS)
        _check_group(broker)
    # It is told once: from now on the settings are known.
    assert broker.process.output().count("topics found in the log folders") == 1
    assert _digests(tmp_path / "data" / _KRAFT_LOG) == metadata_before


def _fill(broker: Broker, base_ms: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name, config in (("kept", {"segment.bytes": "1048576"}), ("empty", {})):
        admin.create_topics([NewTopic(name, 2, 1, config=config)])[name].result(30)
    for run in scenario.runs(base_ms):
        produce_run(broker.bootstrap, "kept", run)
    with assigned_consumer(broker.bootstrap, _GROUP) as consumer:
        wait_for(lambda: _commits(consumer), 60)


def _commits(consumer: Consumer) -> bool:
    """False while Kafka still makes and loads the topic of the offsets."""
    try:
        consumer.commit(offsets=[TopicPartition("kept", 0, _COMMITTED)], asynchronous=False)
    except KafkaException as problem:
        if problem.args[0].code() not in _LOADING:
            raise
        return False
    return True


def _later_run(base_ms: int) -> scenario.Run:
    numbers = range(scenario.RECORD_COUNT, _ALL_RECORDS)
    records = [scenario.expected_record(number, base_ms) for number in numbers]
    return scenario.Run("zstd", True, numbers, records)


def _check_records(broker: Broker, base_ms: int, end: int) -> None:
    with assigned_consumer(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition("kept", 0, 0)])
        read_to_the_end(consumer, 0, base_ms, end)
        offsets = consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=30)
        assert offsets == (0, end)
        assert consumer.get_watermark_offsets(TopicPartition("empty", 1), timeout=30) == (0, 0)


def _check_group(broker: Broker) -> None:
    """Committed offsets are there, and their topic does not expire."""
    with assigned_consumer(broker.bootstrap, _GROUP) as consumer:
        (committed,) = consumer.committed([TopicPartition("kept", 0)], timeout=30)
        assert committed.offset == _COMMITTED
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets")
    settings = admin.describe_configs([resource])[resource].result(30)
    assert settings["cleanup.policy"].value == "compact"


def _check_warning(broker: Broker) -> None:
    """One line with the topics, each setting that may have been set, and the command."""
    (line,) = [
        text
        for text in broker.process.output().splitlines()
        if "topics found in the log folders" in text
    ]
    assert "WARNING" in line
    assert "adopted 2 topics found in the log folders: empty, kept." in line
    for name in TOPIC_SETTINGS_BY_NAME:
        assert f" {name}=" in line
    assert "cleanup.policy=[delete]" in line
    assert f"floodmark config alter --bootstrap-server {broker.bootstrap} --topic empty" in line


def _identity(broker: Broker) -> tuple[object, ...]:
    """Cluster id, node ids, and name, id and partitions of each topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_topics(timeout=30)
    names = sorted(name for name in listed.topics if not name.startswith("__"))
    described = admin.describe_topics(TopicCollection(names))
    topics = [
        (name, str(described[name].result(30).topic_id), len(listed.topics[name].partitions))
        for name in names
    ]
    return listed.cluster_id, sorted(listed.brokers), topics


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*"))
        if path.is_file()
    }
