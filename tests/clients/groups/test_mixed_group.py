"""One group with a member of every client: the broker is what they have in common."""

from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from group_kit.member import Member
from kit.broker import Broker
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.go, pytest.mark.javascript, pytest.mark.timeout(180)]

PARTITIONS = 12
RECORDS = 240
CLIENTS = ("java", "librdkafka", "franz-go", "kafkajs", "kafka-python", "aiokafka")


def test_six_clients_share_a_group_and_leave_it_one_by_one(
    broker: Broker, topic: str, join: Callable[[str, str], Member]
) -> None:
    """All know `roundrobin`, and the leader assigns for the others."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    everything = Counter(f"{topic}/{partition}" for partition in range(PARTITIONS))
    members: list[Member] = []
    living: list[Member] = []
    sent = 0

    def is_shared() -> bool:
        shares = [member.owned() for member in living]
        return all(shares) and Counter(at for share in shares for at in share) == everything

    def consumed() -> Counter[tuple[str, int]]:
        return sum((member.consumed() for member in members), Counter())

    def settle() -> None:
        nonlocal sent
        wait_for(is_shared)
        for number in range(RECORDS):
            producer.produce(topic, f"{number}", partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        sent += RECORDS
        wait_for(lambda: len(consumed()) == sent)

    for client in CLIENTS:
        members.append(join(client, "roundrobin"))
        living.append(members[-1])
        settle()
    assert all(len(member.owned()) == PARTITIONS // len(CLIENTS) for member in members)
    while len(living) > 1:
        living.pop(0).leave()
        settle()
    assert set(consumed().values()) == {1}
