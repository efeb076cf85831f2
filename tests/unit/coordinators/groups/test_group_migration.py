"""Groups that move between the classic and the new protocol, with members of both in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.service import Later
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import AppendRefused
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from floodmark.wire.internal.framing import decode_versioned, encode_versioned
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from floodmark.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from floodmark.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kit.group_bench import GroupBench, is_waiting, now, topic_image

CLIENT = Client("app", "/10.0.0.1", 3)
NEW_CLIENT = Client("app", "/10.0.0.1", 1)
TOPIC = UUID(int=1)


@pytest.fixture
async def bench() -> AsyncIterator[GroupBench]:
    bench = GroupBench(GroupSettings(consumer_assignment_interval_ms=0))
    bench.set_topics(topic_image("t", 4, 1))
    yield bench
    bench.service.close()


def join(
    bench: GroupBench,
    member_id: str = "",
    *,
    owned: list[int] | None = None,
    instance_id: str | None = None,
    protocol_type: str = "consumer",
    protocols: dict[str, bytes] | None = None,
) -> JoinGroupResponse | Later[JoinGroupResponse]:
    """`protocols` are offered with what is to be written for them, by default one that is right."""
    offered = protocols or {"range": subscription(owned)}
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in offered.items()],
    )
    return bench.service.join_group(CLIENT, request)


def subscription(owned: list[int] | None = None) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=["t"],
        owned_partitions=[SubscriptionTopicPartition(topic="t", partitions=owned or [])],
    )
    return encode_versioned(message, 1)


def sync(
    bench: GroupBench,
    member_id: str,
    generation_id: int,
    assignment: list[int] | None = None,
    user_data: bytes | None = None,
    instance_id: str | None = None,
) -> SyncGroupResponse:
    assignments = []
    if assignment is not None:
        message = ConsumerProtocolAssignment(
            assigned_partitions=[AssignmentTopicPartition(topic="t", partitions=assignment)],
            user_data=user_data,
        )
        encoded = encode_versioned(message, 1)
        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=encoded)]
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        assignments=assignments,
    )
    return now(bench.service.sync_group(request))


def partitions_of(response: SyncGroupResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE
    message = decode_versioned(ConsumerProtocolAssignment, response.assignment)
    return [p for topic in message.assigned_partitions for p in topic.partitions]


def heartbeat(bench: GroupBench, member_id: str, generation_id: int) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    return now(bench.service.heartbeat(request)).error_code


def beat(
    bench: GroupBench,
    member_id: str,
    epoch: int = 0,
    owned: list[int] | None = None,
    instance_id: str | None = None,
) -> ConsumerGroupHeartbeatResponse:
    reported = [RequestTopicPartitions(topic_id=TOPIC, partitions=owned)] if owned else []
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=["t"] if epoch == 0 else None,
        topic_partitions=reported,
    )
    return now(bench.service.consumer_group_heartbeat(NEW_CLIENT, request))


def assigned(answer: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    assert answer.assignment is not None
    return [p for topic in answer.assignment.topic_partitions for p in topic.partitions]


def classic_group(bench: GroupBench, user_data: bytes | None = None) -> str:
    """A stable classic group of one member that has all four partitions."""
    outcome = join(bench)
    bench.advance(3000)
    member_id = now(outcome).member_id
    response = sync(bench, member_id, 1, [0, 1, 2, 3], user_data)
    assert partitions_of(response) == [0, 1, 2, 3]
    return member_id


def mixed_group(bench: GroupBench) -> str:
    """The classic member has partitions 0 and 1, the new member `new` the others."""
    classic = classic_group(bench)
    assert assigned(beat(bench, "new")) == []
    assert heartbeat(bench, classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = now(join(bench, classic, owned=[0, 1, 2, 3]))
    assert answer.generation_id == 1
    kept = partitions_of(sync(bench, classic, 1))
    answer = now(join(bench, classic, owned=kept))
    assert answer.generation_id == 2
    assert partitions_of(sync(bench, classic, 2)) == kept
    assert sorted(kept + assigned(beat(bench, "new", 2))) == [0, 1, 2, 3]
    return classic


async def test_a_new_member_turns_a_classic_group_into_a_consumer_group(bench: GroupBench) -> None:
    classic = mixed_group(bench)
    group = bench.group("g")
    assert isinstance(group, ConsumerGroup)
    assert heartbeat(bench, classic, 2) == ErrorCode.NONE
    described = now(bench.service.describe_consumer_group("g"))
    assert sorted(member.member_type for member in described.members) == [0, 1]


async def test_the_mixed_group_survives_a_reload(bench: GroupBench) -> None:
    classic = mixed_group(bench)
    before = bench.group("g")
    await bench.reload()
    after = bench.group("g")
    assert (after.members, after.target, after.owners) == (
        before.members,
        before.target,
        before.owners,
    )
    assert heartbeat(bench, classic, 2) == ErrorCode.NONE


async def test_members_that_wait_in_the_classic_rebalance_are_sent_back(bench: GroupBench) -> None:
    waiting = join(bench)
    beat(bench, "new")
    assert now(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_when_the_last_new_member_leaves_the_group_is_classic_again(
    bench: GroupBench,
) -> None:
    classic = mixed_group(bench)
    assert beat(bench, "new", -1).error_code == ErrorCode.NONE
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING_REBALANCE
    assert heartbeat(bench, classic, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = now(join(bench, classic))
    assert (answer.generation_id, answer.leader) == (3, classic)
    await bench.reload()
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert (list(group.members), group.generation_id) == ([classic], 2)


async def test_when_the_last_new_member_dies_the_group_is_classic_again(bench: GroupBench) -> None:
    classic = mixed_group(bench)
    for _ in range(10):
        bench.advance(5000)
        heartbeat(bench, classic, 2)
    assert isinstance(bench.group("g"), ClassicGroup)


async def test_a_failed_write_leaves_the_group_as_it_was(bench: GroupBench) -> None:
    classic = classic_group(bench)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert beat(bench, "new").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.fail_with = None
    assert isinstance(bench.group("g"), ClassicGroup)
    assert heartbeat(bench, classic, 1) == ErrorCode.NONE


async def test_the_policy_can_forbid_both_ways() -> None:
    bench = GroupBench(GroupSettings(consumer_migration_policy="disabled"))
    bench.set_topics(topic_image("t", 4, 1))
    classic_group(bench)
    assert beat(bench, "new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.service.close()


async def test_a_custom_assignors_data_forbids_the_upgrade(bench: GroupBench) -> None:
    classic_group(bench, user_data=b"mine")
    answer = beat(bench, "new")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == (
        "Cannot upgrade classic group g to consumer group because an unsupported custom assignor is"
        " in use. Please refer to the documentation or switch to a default assignor before"
        " re-attempting the upgrade."
    )


async def test_an_empty_group_changes_its_protocol_without_ado(bench: GroupBench) -> None:
    classic = classic_group(bench)
    identity = MemberIdentity(member_id=classic)
    request = LeaveGroupRequest(group_id="g", members=[identity])
    now(bench.service.leave_group(request))
    assert assigned(beat(bench, "new")) == [0, 1, 2, 3]
    await bench.reload()
    assert isinstance(bench.group("g"), ConsumerGroup)
    beat(bench, "new", -1)
    assert is_waiting(join(bench))
    await bench.reload()
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.is_empty


async def test_any_member_can_be_removed_by_leave_group(bench: GroupBench) -> None:
    classic = mixed_group(bench)
    identities = [MemberIdentity(member_id=m) for m in ("new", "nobody")]
    request = LeaveGroupRequest(group_id="g", members=identities)
    answer = now(bench.service.leave_group(request))
    assert [m.error_code for m in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(bench.group("g").members) == [classic]


async def test_classic_members_must_bring_the_consumer_protocol(bench: GroupBench) -> None:
    beat(bench, "new")
    answer = now(join(bench, protocol_type="connect"))
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert heartbeat(bench, "new", 2) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_static_member_can_go_back_to_the_classic_protocol(bench: GroupBench) -> None:
    assert assigned(beat(bench, "new", instance_id="i")) == [0, 1, 2, 3]
    answer = now(join(bench, instance_id="i"))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == [answer.member_id]
    response = sync(bench, answer.member_id, 2, instance_id="i")
    assert partitions_of(response) == [0, 1, 2, 3]


@pytest.mark.parametrize("nonsense", [b"", b"\0", b"\xff\xff", b"\x7f\xff"])
async def test_what_a_member_wrote_for_its_second_protocol_does_not_stop_the_way_back(
    bench: GroupBench, nonsense: bytes
) -> None:
    assert assigned(beat(bench, "new", instance_id="i")) == [0, 1, 2, 3]
    both = {"range": subscription(), "sticky": nonsense}
    other = now(join(bench, protocols=both))
    assert other.error_code == ErrorCode.NONE
    answer = now(join(bench, instance_id="i", protocols={"sticky": subscription()}))
    assert answer.error_code == ErrorCode.NONE
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.protocol_name == "sticky"
    assert set(group.members) == {other.member_id, answer.member_id}


async def test_what_a_member_consumes_is_not_given_away_when_the_group_moves_twice(
    bench: GroupBench,
) -> None:
    """The first new member is gone before the classic one has heard that it should share."""
    classic = classic_group(bench)
    assert assigned(beat(bench, "new")) == []
    beat(bench, "new", -1)
    assert isinstance(bench.group("g"), ClassicGroup)
    assert assigned(beat(bench, "newer")) == []
    answer = now(join(bench, classic, owned=[0, 1, 2, 3]))
    kept = partitions_of(sync(bench, classic, answer.generation_id))
    assert len(kept) == 2
    now(join(bench, classic, owned=kept))
    assert sorted(kept + assigned(beat(bench, "newer", 3))) == [0, 1, 2, 3]


async def test_what_a_member_consumes_is_not_given_away_when_a_rebalance_begins_again(
    bench: GroupBench,
) -> None:
    """A cooperative member consumes on until it has synced, however often it has to join."""
    classic = classic_group(bench)
    second = join(bench)
    assert now(join(bench, classic, owned=[0, 1, 2, 3])).generation_id == 2
    assert now(second).generation_id == 2
    assert is_waiting(join(bench))
    assert assigned(beat(bench, "new")) == []


async def test_a_static_member_that_goes_back_gets_nothing_that_another_still_consumes(
    bench: GroupBench,
) -> None:
    classic_group(bench)
    assert assigned(beat(bench, "new", instance_id="i")) == []
    answer = now(join(bench, instance_id="i"))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    group = bench.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING_REBALANCE
    response = sync(bench, answer.member_id, 2, instance_id="i")
    assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_classic_members_left_alone_take_over_where_the_group_may_not_move_back() -> None:
    settings = GroupSettings(consumer_assignment_interval_ms=0, consumer_migration_policy="upgrade")
    bench = GroupBench(settings)
    bench.set_topics(topic_image("t", 4, 1))
    classic = mixed_group(bench)
    kept = partitions_of(sync(bench, classic, 2))
    assert len(kept) == 2
    assert beat(bench, "new", -1).error_code == ErrorCode.NONE
    assert isinstance(bench.group("g"), ConsumerGroup)
    assert heartbeat(bench, classic, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert now(join(bench, classic, owned=kept)).generation_id == 3
    assert partitions_of(sync(bench, classic, 3)) == [0, 1, 2, 3]
    assert heartbeat(bench, classic, 3) == ErrorCode.NONE
    bench.service.close()
