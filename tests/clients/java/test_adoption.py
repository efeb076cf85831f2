"""A cleanly stopped data folder of Apache Kafka opens in our broker, and nothing in it is lost."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kit import scenario
from kit.apache_kafka import kraft_broker, zookeeper_broker
from kit.broker import Broker, floodmark_broker
from kit.librdkafka import assigned_consumer, produce_run, read_to_the_end
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_KRAFT_LOG = "__cluster_metadata-0"
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
        with assigned_consumer(broker.bootstrap) as consumer:
            consumer.assign([TopicPartition("kept", 0, 0)])
            read_to_the_end(consumer, 0, base_ms)
            end = consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=30)
            assert end == (0, scenario.RECORD_COUNT)
            assert consumer.get_watermark_offsets(TopicPartition("empty", 1), timeout=30) == (0, 0)
        output = broker.process.output().lower()
        assert "warning" in output
        assert "setting" in output
    assert _digests(tmp_path / "data" / _KRAFT_LOG) == metadata_before


def _fill(broker: Broker, base_ms: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name, config in (("kept", {"segment.bytes": "1048576"}), ("empty", {})):
        admin.create_topics([NewTopic(name, 2, 1, config=config)])[name].result(30)
    for run in scenario.runs(base_ms):
        produce_run(broker.bootstrap, "kept", run)


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
