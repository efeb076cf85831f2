"""A living group moves from the classic protocol to KIP-848's and back, member by member."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from group_kit.member import Member
from kit.broker import Broker
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

PARTITIONS = 6
PAUSE_SECONDS = 0.01
"""Between two records."""

_CASES = [
    # An eager member gives up all it has at each change; a cooperative one hands over one by one.
    pytest.param("java", "range", marks=pytest.mark.java),
    pytest.param("java", "cooperative", marks=pytest.mark.java),
    pytest.param("franz-go", "cooperative", marks=pytest.mark.go),
    # Kafka refuses to move librdkafka's cooperative groups: their members carry data of their own.
    pytest.param("librdkafka", "range"),
]


class Roll:
    """The members of one group, replaced one by one while records keep coming."""

    def __init__(self, broker: Broker, topic: str, join: Callable[[str, str], Member]) -> None:
        self._topic, self._join = topic, join
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        self._members: list[Member] = []
        self._living: list[Member] = []
        self._sent = 0

    @contextmanager
    def records_keep_coming(self) -> Iterator[None]:
        """When they end, all of them have been consumed."""
        enough = threading.Event()
        sender = threading.Thread(target=self._send, args=(enough,))
        sender.start()
        try:
            yield
        finally:
            enough.set()
            sender.join()
        assert self._producer.flush(30) == 0
        wait_for(lambda: len(self.consumed()) == self._sent)

    def _send(self, enough: threading.Event) -> None:
        while not enough.wait(PAUSE_SECONDS):
            self._producer.produce(self._topic, b"", partition=self._sent % PARTITIONS)
            self._producer.poll(0)
            self._sent += 1

    def add(self, client: str, strategy: str) -> None:
        self._members.append(self._join(client, strategy))
        self._living.append(self._members[-1])
        self._settle()

    def replace_oldest(self, client: str, strategy: str) -> None:
        self.add(client, strategy)
        self._living.pop(0).leave()
        self._settle()

    def kind(self) -> ConsumerGroupType:
        listed = self._admin.list_consumer_groups().result().valid
        (found,) = [group for group in listed if group.group_id == f"{self._topic}-group"]
        return found.type

    def consumed(self) -> Counter[tuple[str, int]]:
        return sum((member.consumed() for member in self._members), Counter())

    def _settle(self) -> None:
        wait_for(self._is_shared)
        sent = self._sent
        wait_for(lambda: len(self.consumed()) >= sent)

    def _is_shared(self) -> bool:
        """Evenly: with less, somebody still has to give something up, and if the group became
        classic then, that member would lose its place and what it has not committed yet."""
        shares = [member.owned() for member in self._living]
        owned = Counter(partition for share in shares for partition in share)
        everything = Counter(f"{self._topic}/{partition}" for partition in range(PARTITIONS))
        return len({len(share) for share in shares}) == 1 and owned == everything


@pytest.mark.parametrize(("client", "strategy"), _CASES)
def test_a_group_is_rolled_to_the_consumer_protocol_and_back(
    broker: Broker, topic: str, join: Callable[[str, str], Member], client: str, strategy: str
) -> None:
    roll = Roll(broker, topic, join)
    with roll.records_keep_coming():
        roll.add(client, strategy)
        roll.add(client, strategy)
        assert roll.kind() == ConsumerGroupType.CLASSIC
        roll.replace_oldest(client, "consumer")
        assert roll.kind() == ConsumerGroupType.CONSUMER
        roll.replace_oldest(client, "consumer")
        roll.replace_oldest(client, strategy)
        roll.replace_oldest(client, strategy)
        assert roll.kind() == ConsumerGroupType.CLASSIC
    assert set(roll.consumed().values()) == {1}
