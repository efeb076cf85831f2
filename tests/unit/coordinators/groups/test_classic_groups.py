"""The classic protocol: join, sync, heartbeat, leave, and what time does to a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.service import Later
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import AppendRefused, NotCoordinator
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.consumer_protocol import ConsumerProtocolSubscription
from floodmark.wire.internal.framing import encode_versioned
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
from kit.group_bench import CLIENT, GroupBench, is_waiting, now

GROUP = "g"
OLD_CLIENT = Client("app", "/10.0.0.1", 3)
SUBSCRIPTION = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 3)
JoinOutcome = JoinGroupResponse | Later[JoinGroupResponse]


@pytest.fixture
async def bench() -> AsyncIterator[GroupBench]:
    bench = GroupBench(GroupSettings(max_size=3))
    yield bench
    bench.service.close()


def join(
    bench: GroupBench,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    client: Client = CLIENT,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = SUBSCRIPTION,
    protocol_type: str = "consumer",
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
) -> JoinOutcome:
    return bench.service.join_group(
        client,
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=p, metadata=metadata) for p in protocols],
        ),
    )


def get_id(bench: GroupBench) -> str:
    answer = now(join(bench))
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return answer.member_id


def sync(
    bench: GroupBench,
    member_id: str,
    generation_id: int,
    assignments: dict[str, bytes] | None = None,
    instance_id: str | None = None,
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    return bench.service.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        ),
    )


def heartbeat(
    bench: GroupBench, member_id: str, generation_id: int, instance_id: str | None = None
) -> int:
    request = HeartbeatRequest(
        group_id=GROUP,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    return now(bench.service.heartbeat(request)).error_code


def leave(bench: GroupBench, member_id: str, instance_id: str | None = None) -> int:
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    request = LeaveGroupRequest(group_id=GROUP, members=[identity])
    answer = now(bench.service.leave_group(request))
    return answer.error_code or answer.members[0].error_code


def stable(bench: GroupBench, size: int = 2) -> list[str]:
    """A stable group; the first member leads, member i has the assignment a<i>."""
    ids = [get_id(bench) for _ in range(size)]
    joins = [join(bench, member_id) for member_id in ids]
    bench.advance(3000 + 3000)
    answers = [now(outcome) for outcome in joins]
    generation_id = answers[0].generation_id
    syncs = [sync(bench, member_id, generation_id) for member_id in ids[1:]]
    assignments = {member_id: f"a{i}".encode() for i, member_id in enumerate(ids)}
    syncs.insert(0, sync(bench, ids[0], generation_id, assignments))
    assert [now(outcome).assignment for outcome in syncs] == list(assignments.values())
    return ids


async def test_a_client_without_member_id_is_given_one_first(bench: GroupBench) -> None:
    answer = now(join(bench))
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-id1")
    assert is_waiting(join(bench, answer.member_id))


async def test_old_clients_join_without_a_member_id(bench: GroupBench) -> None:
    outcome = join(bench, client=OLD_CLIENT)
    bench.advance(3000)
    answer = now(outcome)
    assert answer.error_code == ErrorCode.NONE
    assert answer.leader == answer.member_id == "app-id1"
    assert [m.member_id for m in answer.members] == ["app-id1"]


async def test_the_first_rebalance_waits_for_more_members(bench: GroupBench) -> None:
    first_id, second_id = get_id(bench), get_id(bench)
    first = join(bench, first_id)
    bench.advance(2000)
    second = join(bench, second_id)
    bench.advance(2000)
    assert is_waiting(first)
    bench.advance(2000)
    leader, follower = now(first), now(second)
    assert leader.generation_id == follower.generation_id == 1
    assert leader.leader == first_id
    assert {m.member_id for m in leader.members} == {first_id, second_id}
    assert follower.members == []


async def test_the_leader_decides_the_assignment(bench: GroupBench) -> None:
    ids = stable(bench)
    assert bench.group(GROUP).state is ClassicState.STABLE
    assert heartbeat(bench, ids[0], 1) == ErrorCode.NONE


async def test_followers_wait_for_the_leaders_sync(bench: GroupBench) -> None:
    ids = [get_id(bench), get_id(bench)]
    for member_id in ids:
        join(bench, member_id)
    bench.advance(6000)
    follower = sync(bench, ids[1], 1)
    assert is_waiting(follower)
    sync(bench, ids[0], 1, {ids[1]: b"yours"})
    assert now(follower).assignment == b"yours"


async def test_a_member_that_joins_makes_the_others_join_again(bench: GroupBench) -> None:
    ids = stable(bench)
    third = get_id(bench)
    assert heartbeat(bench, ids[0], 1) == ErrorCode.NONE
    new = join(bench, third)
    assert heartbeat(bench, ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = [join(bench, member_id) for member_id in ids]
    assert {now(o).generation_id for o in (new, *again)} == {2}


async def test_members_that_do_not_join_again_are_expelled(bench: GroupBench) -> None:
    ids = stable(bench)
    again = join(bench, ids[0])
    for _ in range(12):
        bench.advance(5000)
        heartbeat(bench, ids[1], 1)
    answer = now(again)
    assert (answer.generation_id, len(answer.members)) == (2, 1)
    assert heartbeat(bench, ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_is_expelled_after_its_session_timeout(bench: GroupBench) -> None:
    ids = stable(bench)
    bench.advance(6000)
    heartbeat(bench, ids[0], 1)
    bench.advance(6000)
    assert list(bench.group(GROUP).members) == [ids[0]]
    assert heartbeat(bench, ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_members_that_do_not_sync_are_expelled(bench: GroupBench) -> None:
    ids = [get_id(bench), get_id(bench)]
    for member_id in ids:
        join(bench, member_id)
    bench.advance(6000)
    sync(bench, ids[0], 1, {})
    for _ in range(61):
        for member_id in ids:
            heartbeat(bench, member_id, 1)
        bench.advance(1000)
    assert list(bench.group(GROUP).members) == [ids[0]]
    assert bench.group(GROUP).state is ClassicState.PREPARING_REBALANCE


async def test_leaving_rebalances_at_once(bench: GroupBench) -> None:
    ids = stable(bench)
    assert leave(bench, ids[1]) == ErrorCode.NONE
    assert heartbeat(bench, ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert now(join(bench, ids[0])).generation_id == 2
    assert leave(bench, ids[0]) == ErrorCode.NONE
    assert bench.group(GROUP).state is ClassicState.EMPTY
    assert leave(bench, ids[0]) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_any_protocol_type_but_one_per_group(bench: GroupBench) -> None:
    member_id = now(join(bench, protocol_type="connect", protocols=("sessioned",))).member_id
    join(bench, member_id, protocol_type="connect", protocols=("sessioned",))
    answer = now(join(bench))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = now(join(bench, protocol_type="connect", protocols=("other",)))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_the_members_vote_for_the_protocol(bench: GroupBench) -> None:
    ids = [get_id(bench) for _ in range(3)]
    preferences = (("a", "b"), ("b", "a"), ("b", "a", "c"))
    joins = [join(bench, i, protocols=p) for i, p in zip(ids, preferences, strict=True)]
    bench.advance(9000)
    assert {now(outcome).protocol_name for outcome in joins} == {"b"}


async def test_a_group_has_room_for_its_maximum(bench: GroupBench) -> None:
    stable(bench, 3)
    assert now(join(bench)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_session_timeouts_outside_the_bounds_are_refused(bench: GroupBench) -> None:
    for timeout_ms in (5_999, 1_800_001):
        answer = now(join(bench, session_timeout_ms=timeout_ms))
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


async def test_unknown_members_and_old_generations_are_told_so(bench: GroupBench) -> None:
    assert heartbeat(bench, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert now(join(bench, "nobody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    ids = stable(bench)
    assert heartbeat(bench, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(bench, ids[0], 0) == ErrorCode.ILLEGAL_GENERATION
    assert now(sync(bench, ids[0], 0)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert now(join(bench, "nobody")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_follower_that_joins_unchanged_gets_its_answer_again(bench: GroupBench) -> None:
    ids = stable(bench)
    assert now(join(bench, ids[1])).generation_id == 1
    assert bench.group(GROUP).state is ClassicState.STABLE
    assert is_waiting(join(bench, ids[1], metadata=SUBSCRIPTION + b"x"))
    assert bench.group(GROUP).state is ClassicState.PREPARING_REBALANCE


async def static_group(bench: GroupBench) -> str:
    outcome = join(bench, instance_id="i")
    bench.advance(3000)
    member_id = now(outcome).member_id
    now(sync(bench, member_id, 1, {member_id: b"mine"}, instance_id="i"))
    return member_id


async def test_a_restarted_static_member_keeps_its_assignment(bench: GroupBench) -> None:
    old_id = await static_group(bench)
    answer = now(join(bench, instance_id="i"))
    assert (answer.generation_id, answer.leader) == (1, answer.member_id)
    assert answer.skip_assignment
    assert answer.member_id != old_id
    assert now(sync(bench, answer.member_id, 1, instance_id="i")).assignment == b"mine"
    assert heartbeat(bench, old_id, 1, "i") == ErrorCode.FENCED_INSTANCE_ID


async def test_an_old_static_leader_is_not_told_that_it_leads(bench: GroupBench) -> None:
    old_id = await static_group(bench)
    answer = now(join(bench, instance_id="i", client=Client("app", "/h", 5)))
    assert (answer.leader, answer.members) == (old_id, [])


async def test_a_static_member_that_cannot_be_stored_is_put_back(bench: GroupBench) -> None:
    old_id = await static_group(bench)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = now(join(bench, instance_id="i"))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.fail_with = None
    assert heartbeat(bench, old_id, 1, "i") == ErrorCode.NONE


async def test_a_static_member_outlives_a_rebalance_and_leaves_by_instance(
    bench: GroupBench,
) -> None:
    await static_group(bench)
    dynamic = get_id(bench)
    outcome = join(bench, dynamic)
    assert is_waiting(outcome)
    assert leave(bench, "", "i") == ErrorCode.NONE
    assert now(outcome).generation_id == 2
    assert leave(bench, "", "i") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1, -(2**31)])
async def test_an_absent_static_member_without_rebalance_timeout_stays_until_its_session_ends(
    bench: GroupBench, rebalance_timeout_ms: int
) -> None:
    """It was looked for again at once, and again, and nobody else was served meanwhile."""
    await static_group(bench)
    restarted = now(join(bench, instance_id="i", rebalance_timeout_ms=rebalance_timeout_ms))
    dynamic_id = get_id(bench)
    join(bench, dynamic_id, rebalance_timeout_ms=rebalance_timeout_ms)
    leave(bench, dynamic_id)
    assert bench.group(GROUP).state is ClassicState.PREPARING_REBALANCE
    bench.advance(9000)
    assert list(bench.group(GROUP).members) == [restarted.member_id]
    bench.advance(2000)
    assert bench.group(GROUP).is_empty


@pytest.mark.parametrize("length", [32_730, 32_731, 32_767])
async def test_a_member_id_that_would_be_too_long_is_not_given(
    bench: GroupBench, length: int
) -> None:
    """It could be neither told nor written down, and the group would have it all the same."""
    name = "x" * length
    for outcome in (join(bench, instance_id=name), join(bench, client=Client(name, "/h", 3))):
        assert is_waiting(outcome) == (length == 32_730)
        if length > 32_730:
            assert now(outcome).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert bench.group(GROUP) is None


async def test_a_member_id_that_was_given_in_advance_is_no_static_member_s(
    bench: GroupBench,
) -> None:
    await static_group(bench)
    for instance_id in ("i", "another"):
        answer = now(join(bench, get_id(bench), instance_id=instance_id))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_group_whose_last_record_was_not_taken_is_empty_all_the_same(
    bench: GroupBench,
) -> None:
    """The timer runs again, and found a group that had been emptied already."""
    join(bench, get_id(bench))
    bench.advance(1000)
    leave(bench, next(iter(bench.group(GROUP).members)))
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.advance(10_000)
    bench.log.fail_with = None
    bench.advance(10_000)
    assert bench.group(GROUP).is_empty


async def test_a_group_whose_first_record_was_not_taken_is_not_there(bench: GroupBench) -> None:
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = now(join(bench, client=OLD_CLIENT))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group(GROUP) is None
    bench.log.fail_with = None
    outcome = join(bench, client=OLD_CLIENT)
    bench.advance(3000)
    assert len(now(outcome).members) == 1, "the one that was refused is no member"


async def test_a_reload_finds_the_stable_group(bench: GroupBench) -> None:
    ids = stable(bench)
    before = bench.group(GROUP)
    await bench.reload()
    after = bench.group(GROUP)
    assert after is not before
    assert after.assignments() == before.assignments()
    assert after.subscribed_topics == {"t"}
    assert after.state is ClassicState.STABLE
    for name in ("generation_id", "protocol_name", "protocol_type", "leader_id"):
        assert getattr(after, name) == getattr(before, name)
    assert heartbeat(bench, ids[1], 1) == ErrorCode.NONE
    bench.advance(20_000)
    assert bench.group(GROUP).members == {}


async def test_a_failed_assignment_write_makes_members_join_again(bench: GroupBench) -> None:
    member_id = get_id(bench)
    join(bench, member_id)
    bench.advance(3000)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = now(sync(bench, member_id, 1, {}))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.fail_with = None
    assert heartbeat(bench, member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_the_assignment_is_answered_when_it_is_committed(bench: GroupBench) -> None:
    member_id = get_id(bench)
    join(bench, member_id)
    bench.advance(3000)
    bench.log.hold = True
    outcome = sync(bench, member_id, 1, {member_id: b"a"})
    assert is_waiting(outcome)
    await asyncio.sleep(0)
    bench.log.commit_all()
    assert isinstance(outcome, Promise)
    assert (await outcome).assignment == b"a"


async def test_unloading_answers_whoever_waits(bench: GroupBench) -> None:
    outcome = join(bench, get_id(bench))
    bench.service.unload(0)
    assert now(outcome).error_code == ErrorCode.NOT_COORDINATOR
    assert heartbeat(bench, "x", 1) == ErrorCode.NOT_COORDINATOR


async def test_losing_leadership_while_a_sync_waits_is_answered(bench: GroupBench) -> None:
    member_id = get_id(bench)
    join(bench, member_id)
    bench.advance(3000)
    bench.log.hold = True
    outcome = sync(bench, member_id, 1, {})
    assert isinstance(outcome, Promise)
    bench.log.lose(NotCoordinator())
    assert (await outcome).error_code == ErrorCode.NOT_COORDINATOR
