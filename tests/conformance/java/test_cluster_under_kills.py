"""Kafka's verifiers and a Connect worker on three brokers, one of which is killed again and again.

Too long for CI; `make conformance` runs it.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from conformance_kit.connect import connect_worker
from conformance_kit.verifiable_consumer import VerifiableConsumer
from conformance_kit.verifiable_producer import VerifiableProducer
from crash_kit.committed_reader import CommittedReader
from floodmark.testing import Cluster
from kit.seeds import seed
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

TOPIC = "verified"
PARTITIONS = 6
KILLS = 6
PROGRESS = 500
PER_SECOND = 500
LONGEST_WAIT_S = 90
LONGEST_LIFE_S = 2.0
LINES = 200
FILE_CONNECTOR = "org.apache.kafka.connect.file.FileStream"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    require_tool("java", "mvn")
    settings = {"zookeeper.session.timeout.ms": 2000, "group.initial.rebalance.delay.ms": 0}
    with Cluster(tmp_path / "cluster", settings) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


def kill_one(cluster: Cluster, random: Random) -> None:
    time.sleep(random.uniform(0, LONGEST_LIFE_S))
    broker = random.choice(cluster.ids)
    cluster.kill(broker)
    cluster.start(broker)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_the_verifiable_producer_was_promised_the_verifiable_consumers_get(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    random = Random(seed())
    bootstrap = cluster.bootstrap_servers

    def member(name: str) -> VerifiableConsumer:
        options = ("--group-protocol", protocol)
        return VerifiableConsumer(bootstrap, TOPIC, "verifiers", tmp_path / name, *options)

    producer = VerifiableProducer(bootstrap, TOPIC, tmp_path / "producer", PER_SECOND)
    with producer, member("first") as first, member("second") as second:
        for _ in range(KILLS):
            goal = len(producer.acknowledged()) + PROGRESS
            wait_for(lambda goal=goal: len(producer.acknowledged()) >= goal, LONGEST_WAIT_S)
            kill_one(cluster, random)
        producer.finish()
        promised = producer.acknowledged()
        wait_for(
            lambda: promised.keys() <= (first.consumed() + second.consumed()).keys(),
            LONGEST_WAIT_S,
        )
        values = dict(record for one in (first, second) for record in one.values())
    assert not producer.failures()
    assert {place: values[place] for place in promised} == promised
    assert len(set(promised.values())) == len(promised), "a value was written twice"
    print(f"{KILLS} kills, {len(promised)} records")


def test_a_connect_worker_carries_every_line_exactly_once_through_kills(
    cluster: Cluster, tmp_path: Path
) -> None:
    random = Random(seed())
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.touch()
    bootstrap = cluster.bootstrap_servers
    with connect_worker(bootstrap, tmp_path, "connect", replicas=3) as worker:
        for name, place in (("Source", {"topic": TOPIC}), ("Sink", {"topics": TOPIC})):
            file = {"file": str(source if name == "Source" else sink)}
            plugin = {"connector.class": f"{FILE_CONNECTOR}{name}Connector", "tasks.max": "1"}
            worker.put(name, plugin | place | file)
            wait_for(lambda name=name: worker.runs(name), LONGEST_WAIT_S)
        with CommittedReader(bootstrap, TOPIC, PARTITIONS) as reader:
            for number in range(KILLS):
                with source.open("a") as grown:
                    grown.writelines(f"line {number}-{index}\n" for index in range(LINES))
                kill_one(cluster, random)
                lines = LINES * (number + 1)
                wait_for(lambda lines=lines: len(reader.seen) >= lines, LONGEST_WAIT_S)
                wait_for(lambda lines=lines: len(written(sink)) >= lines, LONGEST_WAIT_S)
    expected = set(source.read_text().splitlines())
    assert Counter(seen.value.decode() for seen in reader.seen) == Counter(expected)
    assert written(sink) == expected


def written(sink: Path) -> set[str]:
    """A sink may write a line again after a lost commit."""
    return set(sink.read_text().splitlines()) if sink.exists() else set()
