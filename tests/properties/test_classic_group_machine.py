"""Clients of the classic protocol that join, sync, stall, leave and crash, with failovers.

Whatever happens, members of one generation never share an assignment, the group's counts are right,
a reload of a stable group gives that group, and once the trouble ends the group is stable.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import AppendRefused
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kit.flushed import COMMITS_LATER
from kit.group_bench import GroupBench
from kit.loop_machine import LoopMachine

CLIENT = Client("app", "/h", 9)


class Member:
    """A client: it has at most one request under way, as on one connection."""

    def __init__(self, instance_id: str | None, protocols: tuple[str, ...]) -> None:
        self.instance_id = instance_id
        self.protocols = protocols
        self.member_id = ""
        self.generation_id = -1
        self.assignment = b""
        self.members: list[str] = []
        self.is_leader = False
        self.wants = "join"
        self.waiting: tuple[str, Any] | None = None

    def start_again(self) -> None:
        self.member_id, self.generation_id, self.assignment = "", -1, b""
        self.wants = "join"


class ClassicGroupMachine(LoopMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = self.run(GroupBench, commits_later=COMMITS_LATER)
        self.members: list[Member] = []
        self.instances = 0

    def teardown(self) -> None:
        self.settle()
        self.run(self.bench.service.close)
        super().teardown()

    # A client's steps

    def act(self, member: Member) -> None:
        """Take the answer that has come, or send the next request."""
        if member.waiting is None:
            kind = member.wants
            member.waiting = (kind, self.run(getattr(self, f"send_{kind}"), member))
        kind, outcome = member.waiting
        if isinstance(outcome, Promise):
            if not outcome.is_kept:
                return
            outcome = outcome.now_or_later()
        member.waiting = None
        self.obey(member, kind, outcome)

    def send_join(self, member: Member) -> Any:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type="any",
            protocols=[JoinGroupRequestProtocol(name=p) for p in member.protocols],
        )
        return self.bench.service.join_group(CLIENT, request)

    def send_sync(self, member: Member) -> Any:
        assignments = [
            SyncGroupRequestAssignment(
                member_id=m, assignment=f"{member.generation_id}/{i}".encode()
            )
            for i, m in enumerate(member.members)
        ]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            assignments=assignments,
        )
        return self.bench.service.sync_group(request)

    def send_heartbeat(self, member: Member) -> Any:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        return self.bench.service.heartbeat(request)

    def obey(self, member: Member, kind: str, answer: Any) -> None:
        error_code = ErrorCode(answer.error_code)
        if error_code is ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
        elif error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            member.wants = "join"
        elif error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            member.wants = "join" if kind == "join" else member.wants
        elif error_code is not ErrorCode.NONE:
            assert error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            member.start_again()
        elif kind == "join":
            member.member_id, member.generation_id = answer.member_id, answer.generation_id
            member.assignment = b""
            member.members = [m.member_id for m in answer.members]
            if answer.skip_assignment:
                member.members = []
            member.wants = "sync"
        elif kind == "sync":
            member.assignment = answer.assignment
            member.wants = "heartbeat"

    def pick(self, index: int) -> Member:
        return self.members[index % len(self.members)]

    # What happens

    # All have both: of members that were loaded the coordinator knows the chosen protocol only, as
    # Kafka's does, and refuses who does not have it.
    @rule(
        is_static=st.booleans(),
        protocols=st.sampled_from((("a", "b"), ("b", "a"), ("a", "b", "c"))),
    )
    def start(self, is_static: bool, protocols: tuple[str, ...]) -> None:
        if len(self.members) < 4:
            self.instances += 1
            instance_id = f"i{self.instances}" if is_static else None
            self.members.append(Member(instance_id, protocols))
            self.act(self.members[-1])

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9), times=st.integers(1, 4))
    def step(self, index: int, times: int) -> None:
        for _ in range(times):
            self.act(self.pick(index))

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def step_while_writes_fail(self, index: int) -> None:
        self.bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.act(self.pick(index))
        self.bench.log.fail_with = None

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def leave(self, index: int) -> None:
        member = self.pick(index)
        self.members.remove(member)
        identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)
        request = LeaveGroupRequest(group_id="g", members=[identity])
        self.run(self.bench.service.leave_group, request)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def crash(self, index: int) -> None:
        self.members.remove(self.pick(index))

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def restart(self, index: int) -> None:
        old = self.pick(index)
        self.members.remove(old)
        self.members.append(Member(old.instance_id, old.protocols))

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        self.run(self.bench.advance, seconds * 1000)

    @rule()
    def failover(self) -> None:
        before = self.bench.group("g")
        stable = None
        if before is not None and before.state is ClassicState.STABLE:
            stable = (before.assignments(), before.generation_id, before.leader_id)
        self.run(self.bench.reload)
        after = self.bench.group("g")
        if stable is not None:
            assert (after.assignments(), after.generation_id, after.leader_id) == stable

    # What must hold

    @invariant()
    def counts_are_right(self) -> None:
        group = self.bench.group("g")
        if not isinstance(group, ClassicGroup):
            return
        members = group.members.values()
        assert group.waiting_joins == sum(m.join_reply is not None for m in members)
        counts: dict[str, int] = {}
        for member in members:
            for name, _ in member.protocols:
                counts[name] = counts.get(name, 0) + 1
        assert group.supported_protocols == counts
        assert group.static_members == {
            m.instance_id: m.member_id for m in members if m.instance_id is not None
        }
        assert group.leader_id is None or group.leader_id in group.members

    @invariant()
    def assignments_of_a_generation_differ(self) -> None:
        held = [
            (m.generation_id, m.assignment)
            for m in self.members
            if m.assignment and m.wants == "heartbeat"
        ]
        assert len(held) == len(set(held))

    def settle(self) -> None:
        for _ in range(60):
            for member in self.members:
                for _ in range(4):
                    self.act(member)
            self.run(self.bench.advance, 2000)
        group = self.bench.group("g")
        if self.members:
            assert group.state is ClassicState.STABLE
            assert set(group.members) == {m.member_id for m in self.members}
            assert all(m.assignment for m in self.members)
        elif group is not None:
            assert group.members == {}


ClassicGroupMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, print_blob=True
)
test_classic_groups_come_to_rest = ClassicGroupMachine.TestCase
