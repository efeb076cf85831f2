"""One cluster of Apache Kafka 3.9.1 and Floodmark, on one ZooKeeper.

Partitions replicate both ways, either kind leads and either kind is the controller. In the end both
have the same bytes in their logs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource, NewTopic
from floodmark.client.errors import KafkaError
from floodmark.wire.numbers import UpgradeType
from kit.apache_kafka import zookeeper_member
from kit.broker import up_command
from kit.jars import KAFKA_3
from kit.kafka_tools import dump_segments
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port
from kit.tools import require_tool
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

KAFKA, OURS = 1, 2
TOPIC, PARTITIONS = "mixed", 4
RECORDS = 200
SETTINGS = {"zookeeper.session.timeout.ms": "10000", "offsets.topic.replication.factor": "2"}
SEGMENT = "00000000000000000000.log"
T = TypeVar("T")


class MixedCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._zookeeper = ZooKeeper(folder / "zookeeper")
        self._zookeeper.start()
        self._ports = {KAFKA: free_port(), OURS: free_port()}
        self._processes: dict[int, ServerProcess] = {}

    def start(self, broker_id: int, kind: int | None = None) -> None:
        """`kind` is KAFKA or OURS; the same as the id unless it is said."""
        port, connect = self._ports[broker_id], f"{self._zookeeper.hosts}/kafka"
        folder = self._folder / f"broker-{broker_id}"
        folder.mkdir(exist_ok=True)
        if (kind or broker_id) == KAFKA:
            self._wait_until_unregistered(broker_id)
            command = zookeeper_member(folder, broker_id, port, connect, SETTINGS)
        else:
            own = {**SETTINGS, "node.id": str(broker_id), "zookeeper.connect": connect}
            command = up_command(port, folder / "data", own)
        process = ServerProcess(command, folder / "out.txt")
        self._processes[broker_id] = process
        process.wait_until(lambda: broker_answers(port))

    def _wait_until_unregistered(self, broker_id: int) -> None:
        """Unlike ours, Kafka's broker does not start while its last session has not expired."""
        client = KazooClient(self._zookeeper.hosts)
        client.start()
        try:
            wait_for(lambda: client.exists(f"/kafka/brokers/ids/{broker_id}") is None)
        finally:
            client.stop()
            client.close()

    def kill(self, broker_id: int) -> None:
        self._processes[broker_id].kill()

    def stop(self, broker_id: int) -> None:
        self._processes[broker_id].stop()

    def bootstrap(self, broker_id: int) -> str:
        return f"127.0.0.1:{self._ports[broker_id]}"

    def ask(self, broker_id: int, question: Callable[[Admin], Awaitable[T]]) -> T:
        async def run() -> T:
            async with Admin(self.bootstrap(broker_id)) as admin:
                return await question(admin)

        return asyncio.run(run())

    def controller(self, asked: int) -> int:
        return self.ask(asked, lambda admin: admin.describe_cluster()).controller_id

    def create(self, asked: int, topic: str) -> None:
        self.ask(asked, lambda admin: admin.create_topic(NewTopic(topic, PARTITIONS, 2)))

    def delete(self, asked: int, topic: str) -> None:
        self.ask(asked, lambda admin: admin.delete_topics([topic]))

    def set_retention(self, asked: int, value: str) -> None:
        changes = {ConfigResource.topic(TOPIC): [ConfigChange("retention.ms", value)]}
        for outcome in self.ask(asked, lambda admin: admin.incremental_alter_configs(changes)):
            assert outcome.error is None

    def retention(self, asked: int) -> str | None:
        resources = [ConfigResource.topic(TOPIC)]
        (found,) = self.ask(asked, lambda admin: admin.describe_configs(resources))
        return found.entries["retention.ms"].value

    def leaders(self, asked: int, topic: str = TOPIC) -> set[int]:
        (view,) = self.ask(asked, lambda admin: admin.describe_topics([topic]))
        return {one.leader for one in view.partitions.values()}

    def wait_until_in_sync(self, topic: str = TOPIC) -> None:
        def is_in_sync() -> bool:
            for asked in self._ports:
                try:
                    (view,) = self.ask(asked, lambda admin: admin.describe_topics([topic]))
                except KafkaError:
                    return False
                if any(len(one.in_sync_replicas) < 2 for one in view.partitions.values()):
                    return False
            return True

        wait_for(is_in_sync, 60)

    def batches(self, broker_id: int, partition: int) -> list[str]:
        """What Kafka's own tool says about the batches of a log."""
        data = self._folder / f"broker-{broker_id}" / "data"
        file = data / f"{TOPIC}-{partition}" / SEGMENT
        text = dump_segments([file], "--deep-iteration", version=KAFKA_3)
        return [line for line in text.splitlines() if line.startswith(("baseOffset", "| offset"))]

    def logs(self, broker_id: int, topic: str = TOPIC) -> list[bytes]:
        """The bytes of each partition; Kafka's files may have room at their end."""
        data = self._folder / f"broker-{broker_id}" / "data"
        files = [data / f"{topic}-{index}" / SEGMENT for index in range(PARTITIONS)]
        return [file.read_bytes().rstrip(b"\0") for file in files]

    def folders(self, broker_id: int, topic: str) -> list[str]:
        """Of a topic that is not deleted."""
        data = self._folder / f"broker-{broker_id}" / "data"
        return [f.name for f in data.glob(f"{topic}-*") if not f.name.endswith("-delete")]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._zookeeper.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    require_tool("java", "mvn")
    cluster = MixedCluster(tmp_path)
    yield cluster
    cluster.close()


def produce(bootstrap: str, tag: str, topic: str = TOPIC) -> list[str]:
    """Every record is acknowledged by both replicas, or by those that are left."""
    problems: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    values = [f"{tag}-{number}" for number in range(RECORDS)]
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value.encode(),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: problems.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert problems == []
    return values


def commit(bootstrap: str, tag: str) -> list[str]:
    """One transaction that is committed, and one that is not."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": tag, "log_level": 0})
    producer.init_transactions(60)
    sent = {}
    for end in ("committed", "aborted"):
        sent[end] = [f"{tag}-{end}-{number}" for number in range(RECORDS)]
        producer.begin_transaction()
        for number, value in enumerate(sent[end]):
            producer.produce(TOPIC, value.encode(), partition=number % PARTITIONS)
        producer.flush(60)
        if end == "committed":
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    return sent["committed"]


def consume(bootstrap: str, count: int) -> list[str]:
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    values: list[str] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    consumer.close()
    return values


def test_either_kind_leads_and_controls_and_both_keep_the_same_bytes(cluster):
    cluster.start(KAFKA)
    cluster.start(OURS)
    assert cluster.controller(OURS) == KAFKA
    wait_for(lambda: len(cluster.ask(KAFKA, lambda a: a.describe_cluster()).brokers) == 2)
    cluster.create(OURS, TOPIC)
    cluster.wait_until_in_sync()
    assert cluster.leaders(KAFKA) == {KAFKA, OURS}
    sent = produce(cluster.bootstrap(KAFKA), "both")

    cluster.kill(KAFKA)
    sent += produce(cluster.bootstrap(OURS), "ours alone")
    assert cluster.controller(OURS) == OURS

    cluster.start(KAFKA)
    cluster.wait_until_in_sync()
    assert cluster.controller(KAFKA) == OURS
    sent += produce(cluster.bootstrap(KAFKA), "our controller")
    settings_reach_both(cluster, "61000")
    cluster.create(OURS, "second")
    cluster.wait_until_in_sync("second")
    assert cluster.leaders(KAFKA, "second") == {KAFKA, OURS}
    produce(cluster.bootstrap(KAFKA), "second", "second")
    assert cluster.logs(KAFKA, "second") == cluster.logs(OURS, "second")
    cluster.delete(OURS, "second")
    wait_for(lambda: not cluster.folders(KAFKA, "second") + cluster.folders(OURS, "second"))

    cluster.kill(OURS)
    sent += produce(cluster.bootstrap(KAFKA), "Kafka alone")
    assert cluster.controller(KAFKA) == KAFKA

    cluster.start(OURS)
    cluster.wait_until_in_sync()
    sent += produce(cluster.bootstrap(OURS), "Kafka's controller")
    settings_reach_both(cluster, "71000")
    cluster.create(KAFKA, "third")
    cluster.wait_until_in_sync("third")
    cluster.delete(KAFKA, "third")
    wait_for(lambda: not cluster.folders(KAFKA, "third") + cluster.folders(OURS, "third"))

    assert sorted(consume(cluster.bootstrap(OURS), len(sent))) == sorted(sent)
    wait_for(lambda: cluster.logs(KAFKA) == cluster.logs(OURS))
    assert cluster.batches(KAFKA, 0) == cluster.batches(OURS, 0) != []


def test_either_kind_goes_on_in_the_folder_of_the_other(cluster):
    """The way from Kafka to Floodmark and back: one broker at a time, without copying anything."""
    cluster.start(OURS)
    levels = {"group.version": 0, "transaction.version": 0}
    unsafe = UpgradeType.UNSAFE_DOWNGRADE
    cluster.ask(OURS, lambda admin: admin.update_features(levels, upgrade_type=unsafe))
    # Kafka joins only where no feature is on that it does not know.
    cluster.start(KAFKA)
    wait_for(lambda: len(cluster.ask(OURS, lambda a: a.describe_cluster()).brokers) == 2)
    cluster.create(OURS, TOPIC)
    cluster.wait_until_in_sync()
    sent = produce(cluster.bootstrap(KAFKA), "both")
    sent += commit(cluster.bootstrap(KAFKA), "first")
    for kind in (OURS, KAFKA):
        cluster.stop(KAFKA)
        sent += produce(cluster.bootstrap(OURS), f"before {kind}")
        cluster.start(KAFKA, kind)
        cluster.wait_until_in_sync()
        sent += produce(cluster.bootstrap(KAFKA), f"after {kind}")
    sent += commit(cluster.bootstrap(OURS), "second")
    assert sorted(consume(cluster.bootstrap(KAFKA), len(sent))) == sorted(sent)
    wait_for(lambda: cluster.logs(KAFKA) == cluster.logs(OURS))


def settings_reach_both(cluster: MixedCluster, first: str) -> None:
    """In ZooKeeper mode Kafka's brokers write settings themselves, with any controller."""
    for through, value in ((KAFKA, first), (OURS, first + "0")):
        cluster.set_retention(through, value)
        for asked in (KAFKA, OURS):
            wait_for(lambda asked=asked, value=value: cluster.retention(asked) == value)
