"""The new consumer protocol: heartbeats, epochs, assignment, reconciliation, patterns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.ports import AppendRefused
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_fetch import OffsetFetchRequestGroup
from kit.group_bench import GroupBench, now, topic_image

CLIENT = Client("app", "/10.0.0.1", 1)
TOPIC = UUID(int=1)
OTHER = UUID(int=2)


@pytest.fixture
async def bench() -> AsyncIterator[GroupBench]:
    bench = GroupBench(GroupSettings(consumer_assignment_interval_ms=0, consumer_max_size=4))
    bench.set_topics(topic_image("t", 6, 1), topic_image("other", 2, 2))
    yield bench
    bench.service.close()


@dataclass
class Consumer:
    """A client that does what it is told, when a test lets it."""

    bench: GroupBench
    member_id: str
    topics: list[str] | None = field(default_factory=lambda: ["t"])
    pattern: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: dict[UUID, set[int]] = field(default_factory=dict)

    def send(
        self, *, full: bool = False, epoch: int | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        full = full or self.epoch == 0
        owned = [
            RequestTopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in self.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if full else -1,
            subscribed_topic_names=self.topics if full else None,
            subscribed_topic_regex=self.pattern if full else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=owned,
        )
        return now(self.bench.service.consumer_group_heartbeat(CLIENT, request))

    def beat(self, *, full: bool = False) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and take over what it says."""
        answer = self.send(full=full)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                topic.topic_id: set(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }
        return answer


def settle(*consumers: Consumer) -> None:
    for _ in range(3 * len(consumers) + 3):
        for consumer in consumers:
            consumer.beat()


def owned(*consumers: Consumer) -> list[tuple[UUID, int]]:
    return sorted((t, p) for c in consumers for t, ps in c.owned.items() for p in ps)


def everything(topic_id: UUID = TOPIC, size: int = 6) -> list[tuple[UUID, int]]:
    return [(topic_id, partition) for partition in range(size)]


async def test_the_first_member_gets_all_partitions(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a")
    answer = consumer.beat()
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, 5000)
    assert owned(consumer) == everything()
    assert consumer.beat().assignment is None
    assert bench.group("g").state_name == "Stable"


async def test_a_new_group_begins_at_epoch_one_and_its_first_subscription_raises_it(
    bench: GroupBench,
) -> None:
    assert Consumer(bench, "a", topics=[]).beat().member_epoch == 1
    assert Consumer(bench, "b").beat().member_epoch == 2


async def test_a_second_member_waits_until_the_first_has_given_up(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    second.beat()
    assert second.epoch == 3
    assert owned(second) == []
    first.beat()
    assert (first.epoch, len(owned(first))) == (2, 3)
    second.beat()
    assert owned(second) == []
    first.beat()
    assert first.epoch == 3
    second.beat()
    assert owned(first, second) == everything()
    assert len(owned(second)) == 3
    settle(first, second)
    assert bench.group("g").state_name == "Stable"


async def test_partitions_of_one_who_leaves_go_to_the_rest(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    settle(first, second)
    answer = second.send(epoch=-1)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    settle(first)
    assert owned(first) == everything()
    assert second.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_is_expelled(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    settle(first, second)
    bench.advance(30_000)
    first.beat()
    bench.advance(30_000)
    settle(first)
    assert owned(first) == everything()
    assert second.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.epoch, second.owned = 0, {}
    settle(first, second)
    assert len(owned(second)) == 3


async def test_a_member_whose_leave_was_not_written_down_is_expelled_when_silent(
    bench: GroupBench,
) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    settle(first, second)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert second.send(epoch=-1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.fail_with = None
    bench.advance(30_000)
    first.beat()
    bench.advance(30_000)
    settle(first)
    assert owned(first) == everything()


async def test_what_is_to_be_given_up_is_said_until_it_is(bench: GroupBench) -> None:
    """The answer that says so may come when the client does not wait for it any more."""
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    second.beat()
    short = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", member_epoch=first.epoch, topic_partitions=None
    )
    told = [now(bench.service.consumer_group_heartbeat(CLIENT, short)).assignment for _ in range(3)]
    assert told[0] is not None
    assert told[1:] == [told[0]] * 2
    settle(first, second)
    assert owned(first, second) == everything()
    assert first.beat().assignment is None


async def test_a_member_that_does_not_give_up_is_expelled(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    second.beat()
    keeps = dict(first.owned)
    first.beat()
    for _ in range(61):
        first.owned = dict(keeps)
        if first.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            break
        second.beat()
        bench.advance(1000)
    else:
        pytest.fail("the member was not expelled")
    settle(second)
    assert owned(second) == everything()


async def test_epochs_fence_members(bench: GroupBench) -> None:
    first, second, third = (Consumer(bench, m) for m in "abc")
    settle(first, second, third)
    assert first.send(epoch=first.epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(epoch=first.epoch - 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send().error_code == ErrorCode.NONE


async def test_the_previous_epoch_is_accepted_after_a_lost_answer(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    second.beat()
    first.beat()
    first.send()
    answer = first.send()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 3)


async def test_new_partitions_and_topics_are_assigned(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a", topics=["t", "later"])
    consumer.beat()
    bench.set_topics(topic_image("t", 8, 1), topic_image("later", 1, 3))
    consumer.beat()
    assert owned(consumer) == sorted([*everything(TOPIC, 8), (UUID(int=3), 0)])
    bench.set_topics(topic_image("t", 8, 1))
    settle(consumer)
    assert owned(consumer) == everything(TOPIC, 8)


async def test_a_pattern_sees_new_topics(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a", topics=None, pattern="t|n.*")
    consumer.beat()
    assert owned(consumer) == everything()
    bench.set_topics(topic_image("t", 6, 1), topic_image("new", 1, 4), topic_image("old", 1, 5))
    consumer.beat()
    assert owned(consumer) == [*everything(), (UUID(int=4), 0)]
    consumer.pattern = "ol.*"
    for _ in range(3):
        consumer.beat(full=True)
    assert owned(consumer) == [(UUID(int=5), 0)]
    assert list(bench.group("g").regexes) == ["ol.*"]


async def test_a_pattern_is_matched_again_at_the_refresh_interval(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a", topics=None, pattern="t|n.*")
    settle(consumer)
    group_epoch = bench.group("g").group_epoch
    first = bench.group("g").regexes["t|n.*"]
    interval_ms = bench.settings.consumer_regex_refresh_interval_ms
    while bench.clock.now_ms() < first.timestamp_ms + interval_ms:
        assert bench.group("g").regexes["t|n.*"] == first
        bench.advance(20_000)
        consumer.beat()
    again = bench.group("g").regexes["t|n.*"]
    assert again.timestamp_ms >= first.timestamp_ms + interval_ms
    assert again.topics == first.topics
    assert bench.group("g").group_epoch == group_epoch, "the same topics are no reason to rebalance"


async def test_a_pattern_that_cannot_be_read_is_refused(bench: GroupBench) -> None:
    for pattern in ("(", "a(?=b)", "x" * 5000):
        answer = Consumer(bench, "a", topics=None, pattern=pattern).send()
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.group("g") is None


async def test_a_member_without_topics_is_a_member(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a", topics=[])
    assert consumer.beat().member_epoch == 1
    assert owned(consumer) == []


async def test_a_changed_subscription_is_followed(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a")
    consumer.beat()
    consumer.topics = ["other"]
    consumer.beat(full=True)
    settle(consumer)
    assert owned(consumer) == everything(OTHER, 2)


async def test_the_range_assignor_splits_topics_alike(bench: GroupBench) -> None:
    bench.set_topics(topic_image("t", 3, 1), topic_image("other", 3, 2))
    consumers = [Consumer(bench, m, topics=["t", "other"], assignor="range") for m in "ab"]
    settle(*consumers)
    assert [c.owned for c in consumers] == [
        {TOPIC: {0, 1}, OTHER: {0, 1}},
        {TOPIC: {2}, OTHER: {2}},
    ]


async def test_requests_that_make_no_sense_are_refused(bench: GroupBench) -> None:
    answer = Consumer(bench, "a", assignor="mine").send()
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    for request in (
        ConsumerGroupHeartbeatRequest(member_id="a"),
        ConsumerGroupHeartbeatRequest(group_id="g"),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a"),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=-3),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=-2),
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", instance_id=""),
    ):
        answer = now(bench.service.consumer_group_heartbeat(CLIENT, request))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
    later = Consumer(bench, "a", epoch=5).send()
    assert later.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_has_room_for_its_maximum(bench: GroupBench) -> None:
    consumers = [Consumer(bench, str(i)) for i in range(4)]
    settle(*consumers)
    assert Consumer(bench, "x").send().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_static_member_that_is_back_finds_its_partitions(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a", instance_id="i"), Consumer(bench, "b")
    settle(first, second)
    before = owned(first)
    again = Consumer(bench, "c", instance_id="i")
    assert again.send().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.send(epoch=-2).member_epoch == -2
    epoch = bench.group("g").group_epoch
    again.beat()
    assert owned(again) == before
    assert bench.group("g").group_epoch == epoch
    settle(again, second)
    assert owned(again) == before
    assert first.send().error_code == ErrorCode.FENCED_INSTANCE_ID


async def test_a_static_member_joins_again_when_the_response_to_its_join_was_lost(
    bench: GroupBench,
) -> None:
    consumer = Consumer(bench, "a", instance_id="i")
    joined = consumer.send()
    assert consumer.beat() == joined
    assert owned(consumer) == everything()
    assert bench.group("g").group_epoch == joined.member_epoch


async def test_a_fenced_static_member_joins_again(bench: GroupBench) -> None:
    first = Consumer(bench, "a", instance_id="i")
    settle(first)
    second = Consumer(bench, "b")
    settle(first, second)
    assert first.send(epoch=9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    first.epoch, first.owned = 0, {}
    settle(first, second)
    assert owned(first, second) == everything()
    assert len(owned(first)) == len(owned(second))


async def test_a_reload_continues_in_the_middle_of_a_rebalance(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b", topics=["t", "other"])
    first.beat()
    second.beat()
    first.beat()
    before = bench.group("g")
    state = (before.members, before.target, before.owners, before.group_epoch, before.metadata_hash)
    await bench.reload()
    after = bench.group("g")
    assert after is not before
    assert (
        after.members,
        after.target,
        after.owners,
        after.group_epoch,
        after.metadata_hash,
    ) == state
    settle(first, second)
    assert owned(first, second) == sorted([*everything(), *everything(OTHER, 2)])


def commit(bench: GroupBench, member_id: str, epoch: int, partition: int, version: int = 9) -> int:
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=TOPIC,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=1, committed_metadata=""
                    )
                ],
            )
        ],
    )
    client = Client("app", "/h", version)
    answer = now(bench.service.commit_offsets(client.api_version, request))
    return answer.topics[0].partitions[0].error_code


async def test_commits_are_fenced_by_the_epoch_of_the_partition(bench: GroupBench) -> None:
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    assert commit(bench, "a", 2, 0) == ErrorCode.NONE
    settle(first, second)
    mine = next(iter(first.owned[TOPIC]))
    theirs = next(iter(second.owned[TOPIC]))
    assert first.epoch == 3
    assert commit(bench, "a", 3, theirs) == ErrorCode.NONE
    assert commit(bench, "a", 2, mine) == ErrorCode.NONE
    assert commit(bench, "a", 2, theirs) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(bench, "b", 2, theirs) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(bench, "a", 4, mine) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(bench, "x", 2, mine) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, "", -1, mine) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, "a", 3, mine, version=8) == ErrorCode.UNSUPPORTED_VERSION


async def test_fetches_of_members_are_fenced_too(bench: GroupBench) -> None:
    Consumer(bench, "a").beat()
    for member_id, epoch, expected in (
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        answer = now(bench.service.fetch_offsets(request, require_stable=False))
        assert answer.error_code == expected


async def test_a_consumer_group_is_listed_described_and_deleted(bench: GroupBench) -> None:
    consumer = Consumer(bench, "a")
    consumer.beat()
    _, listed = bench.service.list_groups(["stable"], ["consumer"])
    assert [(g.group_id, g.protocol_type, g.group_state) for g in listed] == [
        ("g", "consumer", "Stable")
    ]
    described = now(bench.service.describe_consumer_group("g"))
    assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
    member = described.members[0]
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.member_type == 1
    assert now(bench.service.delete_group("g")).error_code == ErrorCode.NON_EMPTY_GROUP
    missing = now(bench.service.describe_consumer_group("x"))
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    consumer.send(epoch=-1)
    assert now(bench.service.describe_consumer_group("g")).group_state == "Empty"
    assert now(bench.service.delete_group("g")).error_code == ErrorCode.NONE
    await bench.reload()
    assert bench.group("g") is None


async def test_assignments_are_computed_at_most_once_per_interval() -> None:
    bench = GroupBench(GroupSettings(consumer_assignment_interval_ms=1000))
    bench.set_topics(topic_image("t", 6, 1))
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    second.beat()
    assert (second.epoch, bench.group("g").state_name) == (2, "Assigning")
    bench.advance(1000)
    second.beat()
    assert second.epoch == 3
    bench.service.close()


async def test_a_clock_that_was_set_back_does_not_hold_up_assignments() -> None:
    bench = GroupBench(GroupSettings(consumer_assignment_interval_ms=1000))
    bench.set_topics(topic_image("t", 6, 1))
    first, second = Consumer(bench, "a"), Consumer(bench, "b")
    first.beat()
    bench.clock.set_wall(bench.clock.now_ms() - 3_600_000)
    second.beat()
    assert second.epoch == 3
    bench.service.close()


async def test_members_whose_ids_read_alike_have_sessions_of_their_own(bench: GroupBench) -> None:
    def send(group_id: str, member_id: str, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = now(bench.service.consumer_group_heartbeat(CLIENT, request))
        assert answer.error_code == ErrorCode.NONE

    send("a", "b:c", 0)
    send("a:b", "c", 0)
    send("a:b", "c", -1)
    assert list(bench.group("a").members) == ["b:c"]
    bench.advance(60_000)
    assert bench.group("a").is_empty


async def test_what_a_member_owns_may_be_told_in_pieces(bench: GroupBench) -> None:
    """A member that missed an answer is fenced when it owns more than it was given."""
    consumer = Consumer(bench, "m1")
    consumer.beat()
    consumer.topics = ["t", "other"]
    consumer.send(full=True)
    pieces = [[0, 1], [99]]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m1",
        member_epoch=consumer.epoch,
        topic_partitions=[
            RequestTopicPartitions(topic_id=TOPIC, partitions=partitions)
            for partitions in reversed(pieces)
        ],
    )
    answer = now(bench.service.consumer_group_heartbeat(CLIENT, request))
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
