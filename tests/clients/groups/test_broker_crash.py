"""Groups outlive their broker: kill -9, a new start on the same files, and all goes on."""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from group_kit.member import Member
from group_kit.programs import PROGRAMS
from group_kit.settings import SETTINGS
from kit.broker import start_floodmark
from kit.process import free_port
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

TOPIC, GROUP = "crash", "crash-group"
PARTITIONS = 6
RECORDS = 300
CRASHES = 3

_CLIENTS = [
    pytest.param("java", "cooperative", marks=pytest.mark.java),
    pytest.param("java", "consumer", marks=pytest.mark.java),
    pytest.param("franz-go", "range", marks=pytest.mark.go),
    pytest.param("franz-go", "consumer", marks=pytest.mark.go),
    pytest.param("librdkafka", "range"),
    pytest.param("librdkafka", "consumer"),
]


@pytest.mark.parametrize(("client", "strategy"), _CLIENTS)
def test_members_go_on_where_they_were_after_a_crash_of_the_broker(
    tmp_path: Path, client: str, strategy: str
) -> None:
    port = free_port()
    broker = start_floodmark(tmp_path, SETTINGS, port)
    bootstrap = broker.bootstrap
    members: list[Member] = []
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        command = [*PROGRAMS[client](), bootstrap, GROUP, f"^{TOPIC}$", strategy]
        members += [Member(command, tmp_path / f"member-{number}.out") for number in range(2)]
        for crash in range(1, CRASHES + 1):
            wait_for(lambda: is_shared(members), 60)
            produce(bootstrap)
            total = crash * RECORDS
            wait_for(lambda total=total: len(consumed(members)) == total, 60)
            wait_for(lambda total=total: committed(bootstrap) == total)
            broker.process.kill()
            broker = start_floodmark(tmp_path, SETTINGS, port)
        wait_for(lambda: is_shared(members), 60)
        produce(bootstrap)
        wait_for(lambda: len(consumed(members)) == (CRASHES + 1) * RECORDS, 60)
        for member in members:
            member.leave()
        assert set(consumed(members).values()) == {1}
    finally:
        for member in members:
            member.kill()
        broker.process.stop()


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"{number}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def is_shared(members: list[Member]) -> bool:
    shares = [member.owned() for member in members]
    owned = Counter(partition for share in shares for partition in share)
    return all(shares) and owned == Counter(f"{TOPIC}/{at}" for at in range(PARTITIONS))


def consumed(members: list[Member]) -> Counter[tuple[str, int]]:
    return sum((member.consumed() for member in members), Counter())


def committed(bootstrap: str) -> int:
    """What the group has committed over all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        return sum(max(0, at.offset) for at in consumer.committed(partitions, 30))
    finally:
        consumer.close()
