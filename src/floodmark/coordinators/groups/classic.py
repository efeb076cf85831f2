"""SyncGroup, Heartbeat and LeaveGroup for classic groups, and deleting them. PURE.

Called by `shard.py`, which knows whether a group is a classic one. JoinGroup is in
`classic_join.py`.
"""

from __future__ import annotations

from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.groups.classic_group import ClassicGroup, ClassicMember, SyncReply
from floodmark.coordinators.groups.classic_join import UNKNOWN_MEMBER, ClassicJoin
from floodmark.coordinators.groups.classic_rebalance import NOTHING, ClassicRebalance
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import CoordinatorError
from floodmark.coordinators.shard import Timers, Write
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.join_group import JoinGroupResponse
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroups:
    """`groups` is the shard's own dictionary. Consumer groups in it are ignored here."""

    def __init__(self, groups: Groups, timers: Timers, surroundings: Surroundings) -> None:
        self.rebalance = ClassicRebalance(groups, timers, surroundings)
        self.join = ClassicJoin(self.rebalance).join

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply, now_ms: int
    ) -> Write[None]:
        group.validate_member(request.member_id, request.group_instance_id)
        _check_generation(group, request.generation_id)
        if _differs(request.protocol_type, group.protocol_type) or _differs(
            request.protocol_name, group.protocol_name
        ):
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.is_preparing:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.rebalance.sync_received(group, request.member_id)
        member = group.members[request.member_id]
        if group.state is ClassicState.STABLE:
            reply(
                SyncGroupResponse(
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                )
            )
            return NOTHING
        member.sync_reply = reply
        if request.member_id != group.leader_id:
            return NOTHING
        return self._store_assignment(group, request, now_ms)

    def _store_assignment(
        self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int
    ) -> Write[None]:
        assignments = {item.member_id: item.assignment for item in request.assignments}

        def done(error: CoordinatorError | None) -> None:
            # If a member joined while this was being committed, it is outdated.
            if (
                group.state is not ClassicState.COMPLETING_REBALANCE
                or group.generation_id != request.generation_id
            ):
                return
            if error is None:
                self.rebalance.assign(group, assignments, now_ms)
            else:
                self.rebalance.fail_assignment(group, client_code(error), now_ms)

        return Write(None, [group.to_record(assignments)], then=done, replay=False)

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> Write[HeartbeatResponse]:
        group.validate_member(request.member_id, request.group_instance_id)
        _check_generation(group, request.generation_id)
        self.rebalance.renew_session(group, group.members[request.member_id])
        error_code = ErrorCode.REBALANCE_IN_PROGRESS if group.is_preparing else ErrorCode.NONE
        return Write(HeartbeatResponse(error_code=error_code))

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest, now_ms: int
    ) -> Write[LeaveGroupResponse]:
        answers = [self._leave_one(group, identity) for identity in request.members]
        response = LeaveGroupResponse(members=answers)
        write = NOTHING
        if any(answer.error_code == ErrorCode.NONE for answer in answers):
            if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                write = self.rebalance.rebalance_or_complete(group, now_ms)
            elif group.is_preparing:
                write = self.rebalance.complete_if_all_joined(group, now_ms)
        return Write(response, write.records, then=write.then, replay=write.replay)

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        """An administrator names static members by instance id alone (KIP-345)."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        answer = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        if member_id == UNKNOWN_MEMBER:
            static_id = group.static_members.get(instance_id) if instance_id is not None else None
            if static_id is None:
                answer.error_code = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                self.rebalance.remove_member(group, static_id)
        elif member_id in group.pending_joins:
            self.rebalance.remove_member(group, member_id)
        else:
            try:
                group.validate_member(member_id, instance_id)
                self.rebalance.remove_member(group, member_id)
            except CoordinatorError as error:
                answer.error_code = error.error_code
        return answer

    def keep_session(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """An offset commit is also a sign of life. It counts when the session would end."""
        if group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            member = group.members.get(member_id)
            if member is not None:
                member.committed_ms = now_ms

    def start_sessions(self, group: ClassicGroup, now_ms: int) -> None:
        """After loading, all members get a full session to find the new coordinator."""
        for member in group.members.values():
            self.rebalance.renew_session(group, member)
        if len(group.members) > self.rebalance.surroundings.settings.max_size:
            self.rebalance.prepare_rebalance(group, now_ms)

    def forget(self, group: ClassicGroup, error_code: ErrorCode, now_ms: int) -> None:
        """The group leaves this broker: members that wait learn why."""
        for member in list(group.members.values()):
            group.answer_join(
                member, JoinGroupResponse(error_code=error_code, member_id=member.member_id)
            )
            group.answer_sync(member, SyncGroupResponse(error_code=error_code))
        group.transition(ClassicState.DEAD, now_ms)


def describe_classic(group: ClassicGroup) -> DescribedGroup:
    """Shows subscriptions only once the group is stable."""
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_describe_member(group, m, is_stable) for m in group.members.values()],
    )


def _describe_member(
    group: ClassicGroup, member: ClassicMember, with_metadata: bool
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if with_metadata else b"",
        member_assignment=member.assignment,
    )


def _check_generation(group: ClassicGroup, generation_id: int) -> None:
    if generation_id != group.generation_id:
        raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)


def _differs(asked: str | None, actual: str | None) -> bool:
    """Clients before SyncGroup v5 do not name the protocol."""
    return asked is not None and actual is not None and asked != actual
