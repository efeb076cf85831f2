"""Consumers of both protocols in one group, with lost answers, crashes and failovers.

Whatever happens, no partition is consumed by two clients, a reload gives the state that was there,
and once the trouble ends everybody who is left has a fair share of everything.
"""

from __future__ import annotations

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.ports import AppendRefused
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kit.flushed import COMMITS_LATER
from kit.group_bench import GroupBench, now, topic_image
from kit.loop_machine import LoopMachine

CLIENT = Client("app", "/h", 1)
TOPICS = ("t", "u")
MUST_REJOIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class Consumer:
    """Consumes what it was told it has, until it is told otherwise or its session is over."""

    def __init__(self, member_id: str, topics: list[str]) -> None:
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.owned: dict[UUID, set[int]] = {}
        self.heard_ms = 0
        self.must_say_all = True
        """After a lost answer a client sends a full request, and hears everything."""

    def partitions(self) -> set[tuple[UUID, int]]:
        return {(t, p) for t, ps in self.owned.items() for p in ps}


class ConsumerGroupMachine(LoopMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = self.run(
            GroupBench,
            GroupSettings(consumer_assignment_interval_ms=0),
            commits_later=COMMITS_LATER,
        )
        self.sizes = {"t": 4, "u": 3}
        self.consumers: dict[str, Consumer] = {}
        self.names = 0
        self._publish()

    def teardown(self) -> None:
        self.settle()
        self.run(self.bench.service.close)
        super().teardown()

    def _publish(self) -> None:
        images = [topic_image(t, n, i + 1) for i, (t, n) in enumerate(self.sizes.items())]
        self.run(self.bench.set_topics, *images)

    def send(self, consumer: Consumer, epoch: int | None = None) -> ConsumerGroupHeartbeatResponse:
        is_full = consumer.epoch == 0 or consumer.must_say_all
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=consumer.member_id,
            member_epoch=consumer.epoch if epoch is None else epoch,
            rebalance_timeout_ms=60_000 if is_full else -1,
            subscribed_topic_names=consumer.topics if is_full else None,
            topic_partitions=[
                RequestTopicPartitions(topic_id=t, partitions=sorted(p))
                for t, p in consumer.owned.items()
            ],
        )
        heartbeat = self.bench.service.consumer_group_heartbeat
        answer: ConsumerGroupHeartbeatResponse = now(self.run(heartbeat, CLIENT, request))
        return answer

    def obey(self, consumer: Consumer, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in (*MUST_REJOIN, ErrorCode.GROUP_ID_NOT_FOUND):
            consumer.epoch, consumer.owned = 0, {}
            return
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        consumer.must_say_all = False
        consumer.epoch = answer.member_epoch
        consumer.heard_ms = self.bench.clock.now_ms()
        if answer.assignment is not None:
            consumer.owned = {
                topic.topic_id: set(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }

    def pick(self, index: int) -> Consumer:
        return list(self.consumers.values())[index % len(self.consumers)]

    # What happens

    @rule(topics=st.sampled_from((["t"], ["u"], ["t", "u"])))
    def start(self, topics: list[str]) -> None:
        if len(self.consumers) < 5:
            self.names += 1
            consumer = Consumer(f"m{self.names}", topics)
            self.consumers[consumer.member_id] = consumer
            self.obey(consumer, self.send(consumer))

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, 9))
    def beat(self, index: int) -> None:
        consumer = self.pick(index)
        self.obey(consumer, self.send(consumer))

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, 9))
    def answer_is_lost(self, index: int) -> None:
        consumer = self.pick(index)
        self.send(consumer)
        consumer.must_say_all = True

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, 9))
    def write_fails(self, index: int) -> None:
        self.bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
        consumer = self.pick(index)
        answer = self.send(consumer)
        self.bench.log.fail_with = None
        if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.obey(consumer, answer)

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, 9))
    def leave(self, index: int) -> None:
        consumer = self.pick(index)
        del self.consumers[consumer.member_id]
        if consumer.epoch:
            self.send(consumer, epoch=-1)

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, 9))
    def crash(self, index: int) -> None:
        del self.consumers[self.pick(index).member_id]

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        if self.sizes[topic] < 8:
            self.sizes[topic] += 2
            self._publish()

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        self.run(self.bench.advance, seconds * 1000)
        for consumer in self.consumers.values():
            silent_ms = self.bench.clock.now_ms() - consumer.heard_ms
            if silent_ms >= 45_000:
                # A client that cannot reach the coordinator stops before it is expelled.
                consumer.epoch, consumer.owned = 0, {}

    @rule()
    def failover(self) -> None:
        before = self.bench.group("g")
        self.run(self.bench.reload)
        after = self.bench.group("g")
        if before is None:
            assert after is None
            return
        for name in (
            "members",
            "static_members",
            "target",
            "owners",
            "regexes",
            "group_epoch",
            "metadata_hash",
            "assignment_epoch",
            "assignment_timestamp_ms",
        ):
            assert getattr(after, name) == getattr(before, name), name

    # What must hold

    @invariant()
    def no_partition_is_consumed_twice(self) -> None:
        seen: dict[tuple[UUID, int], str] = {}
        for consumer in self.consumers.values():
            for partition in consumer.partitions():
                other = seen.setdefault(partition, consumer.member_id)
                assert other == consumer.member_id, f"{partition}: {other}, {consumer.member_id}"

    @invariant()
    def owners_are_those_who_hold(self) -> None:
        group = self.bench.group("g")
        if not isinstance(group, ConsumerGroup):
            return
        held = {
            (topic_id, partition): member.member_id
            for member in group.members.values()
            for owned in (member.assigned, member.pending_revocation)
            for topic_id, partitions in owned.items()
            for partition in partitions
        }
        assert group.owners == held

    def settle(self) -> None:
        """The trouble ends: crashed members are expelled, all others go on."""
        if not self.consumers:
            return
        for _ in range(30):
            for consumer in self.consumers.values():
                self.obey(consumer, self.send(consumer))
            self.run(self.bench.advance, 5000)
        wanted = {topic for consumer in self.consumers.values() for topic in consumer.topics}
        expected = {
            (self.bench.image.topics[topic].topic_id, p)
            for topic in wanted
            for p in range(self.sizes[topic])
        }
        got = [p for consumer in self.consumers.values() for p in consumer.partitions()]
        assert sorted(got) == sorted(expected)
        self._check_fairness()

    def _check_fairness(self) -> None:
        for topics in (["t"], ["u"], ["t", "u"]):
            alike = [len(c.partitions()) for c in self.consumers.values() if c.topics == topics]
            assert not alike or max(alike) - min(alike) <= 1


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, print_blob=True
)
test_consumers_share_without_overlap = ConsumerGroupMachine.TestCase
