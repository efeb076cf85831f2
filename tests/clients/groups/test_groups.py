"""Groups of real consumers: who owns what, through joins, leaves, crashes, pauses and growth."""

from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from group_kit.member import Member
from kit.broker import Broker
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

PARTITIONS = 6
RECORDS = 300

_MARKS = {"java": [pytest.mark.java], "franz-go": [pytest.mark.go]}
_MARKS["kafkajs"] = [pytest.mark.javascript]


def _case(client: str, strategy: str) -> object:
    marks = _MARKS.get(client, [])
    return pytest.param(client, strategy, id=f"{client}-{strategy}", marks=marks)


# Eager and cooperative where the client has both; `consumer` is the protocol of KIP-848.
_CLIENTS = [
    _case("java", "range"),
    _case("java", "cooperative"),
    _case("java", "consumer"),
    _case("librdkafka", "range"),
    _case("librdkafka", "cooperative"),
    _case("librdkafka", "consumer"),
    _case("franz-go", "range"),
    _case("franz-go", "cooperative"),
    _case("franz-go", "consumer"),
    _case("kafkajs", "roundrobin"),
    # Its cooperative members stop at times when topics grow, on Apache Kafka 4.3.0 as well.
    _case("kafka-python", "range"),
    _case("aiokafka", "roundrobin"),
]

Join = Callable[[str, str], Member]


@pytest.mark.parametrize(("client", "strategy"), _CLIENTS)
def test_a_clean_handover_consumes_nothing_twice(
    broker: Broker, topic: str, join: Join, client: str, strategy: str
) -> None:
    create(broker, topic)
    first = join(client, strategy)
    wait_for(lambda: first.owned() == partitions(topic))
    produce(broker, topic)
    wait_for(lambda: len(consumed(first)) == RECORDS)
    second = join(client, strategy)
    wait_for(lambda: share(topic, first, second))
    produce(broker, topic)
    wait_for(lambda: len(consumed(first, second)) == 2 * RECORDS)
    first.leave()
    wait_for(lambda: second.owned() == partitions(topic))
    produce(broker, topic)
    wait_for(lambda: len(consumed(first, second)) == 3 * RECORDS)
    second.leave()
    assert set(consumed(first, second).values()) == {1}


@pytest.mark.parametrize(("client", "strategy"), _CLIENTS)
def test_killed_and_paused_members_lose_their_partitions(
    broker: Broker, topic: str, join: Join, client: str, strategy: str
) -> None:
    create(broker, topic)
    stays, dies = join(client, strategy), join(client, strategy)
    wait_for(lambda: share(topic, stays, dies))
    dies.kill()
    wait_for(lambda: stays.owned() == partitions(topic))
    sleeps = join(client, strategy)
    wait_for(lambda: share(topic, stays, sleeps))
    sleeps.pause()
    wait_for(lambda: stays.owned() == partitions(topic))
    produce(broker, topic)
    wait_for(lambda: len(consumed(stays)) == RECORDS)
    sleeps.resume()
    wait_for(lambda: share(topic, stays, sleeps))
    produce(broker, topic)
    wait_for(lambda: len(consumed(stays, sleeps)) == 2 * RECORDS)
    # The sleeper may have read before it knew; what it committed then must have changed nothing.
    assert set(consumed(stays).values()) == {1}


@pytest.mark.parametrize(("client", "strategy"), _CLIENTS)
def test_new_partitions_and_new_topics_of_a_pattern_are_shared(
    broker: Broker, topic: str, join: Join, client: str, strategy: str
) -> None:
    create(broker, topic)
    first, second = join(client, strategy), join(client, strategy)
    wait_for(lambda: share(topic, first, second))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(30)
    grown = partitions(topic, PARTITIONS + 2)
    wait_for(lambda: owns_once(grown, first, second))
    if client == "kafkajs":
        return  # It looks for topics of a pattern once, when it subscribes.
    create(broker, f"{topic}-new")
    everything = grown | partitions(f"{topic}-new")
    wait_for(lambda: owns_once(everything, first, second))


def create(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def produce(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, f"{number}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def partitions(topic: str, count: int = PARTITIONS) -> set[str]:
    return {f"{topic}/{partition}" for partition in range(count)}


def share(topic: str, first: Member, second: Member) -> bool:
    """Each has half, and none has what the other has."""
    is_even = len(first.owned()) == len(second.owned())
    return is_even and owns_once(partitions(topic), first, second)


def owns_once(expected: set[str], *members: Member) -> bool:
    owned = Counter(partition for member in members for partition in member.owned())
    return owned == Counter(expected)


def consumed(*members: Member) -> Counter[tuple[str, int]]:
    return sum((member.consumed() for member in members), Counter())
