"""JoinGroup for classic groups: who may join, and what a join starts. PURE.

The first half of the classic protocol. `classic_rebalance.py` has the rebalance it starts.
"""

from __future__ import annotations

from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.groups.classic_group import (
    ClassicGroup,
    ClassicMember,
    JoinReply,
    Protocols,
)
from floodmark.coordinators.groups.classic_rebalance import NOTHING, ClassicRebalance
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.records import group_metadata
from floodmark.coordinators.groups.settings import CLASSIC_NEW_MEMBER_JOIN_TIMEOUT_MS
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import CoordinatorError, NotAppended
from floodmark.coordinators.shard import Write
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.classic_groups import GroupMetadataValue
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from floodmark.wire.primitives import MAX_STRING_BYTES

UNKNOWN_MEMBER = ""
ID_SUFFIX_BYTES = 37
"""A dash and a UUID."""
MEMBER_ID_REQUIRED_SINCE = 4
"""JoinGroup v4: a client without a member id gets one first (KIP-394)."""
SKIP_ASSIGNMENT_SINCE = 9
"""JoinGroup v9: a restarted static leader learns that it need not assign (KIP-814)."""


def refused(error_code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """In the member's order of preference. Duplicate names count once."""
    by_name = {protocol.name: protocol.metadata for protocol in reversed(request.protocols)}
    return tuple((name, by_name[name]) for name in dict.fromkeys(p.name for p in request.protocols))


def id_prefix(client: Client, request: JoinGroupRequest) -> str:
    """The prefix of a new member id."""
    return client.client_id if request.group_instance_id is None else request.group_instance_id


def leaves_room_for_id(client: Client, request: JoinGroupRequest) -> bool:
    """Whether a member id fits into a protocol string. A longer one could not be sent or stored."""
    return len(id_prefix(client, request).encode()) <= MAX_STRING_BYTES - ID_SUFFIX_BYTES


def rebalance_timeout_of(client: Client, request: JoinGroupRequest) -> int:
    """Version 0 had one timeout for both."""
    return request.session_timeout_ms if client.api_version == 0 else request.rebalance_timeout_ms


class ClassicJoin:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def join(
        self, client: Client, request: JoinGroupRequest, reply: JoinReply, now_ms: int
    ) -> Write[None]:
        group_id, member_id = request.group_id, request.member_id
        group = self._rebalance.find(group_id)
        is_new_group = group is None
        if group is None:
            if member_id != UNKNOWN_MEMBER:
                reply(refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
                return NOTHING
            group = ClassicGroup(group_id, state_timestamp_ms=now_ms)
            self._rebalance.groups[group_id] = group
        if not self._has_room_for(group, member_id):
            self._rebalance.remove_member(group, member_id)
            reply(refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
            write = NOTHING
        elif not group.supports(request.protocol_type, [p.name for p in request.protocols]):
            reply(refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            write = NOTHING
        elif member_id == UNKNOWN_MEMBER:
            write = self._join_new(client, request, group, reply, now_ms)
        else:
            write = self._join_known(client, request, group, reply, now_ms)
        if is_new_group and not write.records:
            return self._write_new_group(group, reply, now_ms)
        return write

    def _write_new_group(self, group: ClassicGroup, reply: JoinReply, now_ms: int) -> Write[None]:
        """A group is stored from its first request on. Without a record, it does not exist."""

        def done(error: CoordinatorError | None) -> None:
            if error is None:
                return
            is_current = self._rebalance.groups.get(group.group_id) is group
            if is_current and isinstance(error, NotAppended):
                del self._rebalance.groups[group.group_id]
            reply(refused(client_code(error)))

        value = GroupMetadataValue(
            protocol_type="", protocol=None, leader=None, current_state_timestamp=now_ms
        )
        return Write(None, [group_metadata(group.group_id, value)], then=done, replay=False)

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """While members rejoin, only those that already wait count.

        So the last ones are refused if the limit was lowered.
        """
        max_size = self._rebalance.surroundings.settings.max_size
        member = group.members.get(member_id)
        if group.is_preparing:
            is_waiting = member is not None and member.join_reply is not None
            return is_waiting or group.waiting_joins < max_size
        if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return member is not None or len(group.members) < max_size
        return True

    def _join_new(
        self,
        client: Client,
        request: JoinGroupRequest,
        group: ClassicGroup,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        instance_id = request.group_instance_id
        new_id = f"{id_prefix(client, request)}-{self._rebalance.surroundings.new_uuid()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is not None:
                return self._replace_static(client, request, group, old_id, new_id, reply, now_ms)
        elif client.api_version >= MEMBER_ID_REQUIRED_SINCE:
            group.pending_joins.add(new_id)
            self._rebalance.expect_heartbeat(group.group_id, new_id, request.session_timeout_ms)
            reply(refused(ErrorCode.MEMBER_ID_REQUIRED, new_id))
            return NOTHING
        return self._add(client, request, group, new_id, reply, now_ms)

    def _join_known(
        self,
        client: Client,
        request: JoinGroupRequest,
        group: ClassicGroup,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        member_id = request.member_id
        if member_id in group.pending_joins and request.group_instance_id is not None:
            # Only dynamic members get ids in advance. Kafka has no better code for this.
            reply(refused(ErrorCode.UNKNOWN_SERVER_ERROR))
            return NOTHING
        if member_id in group.pending_joins:
            return self._add(client, request, group, member_id, reply, now_ms)
        try:
            group.validate_member(member_id, request.group_instance_id)
        except CoordinatorError as error:
            reply(refused(error.error_code, member_id))
            return NOTHING
        member = group.members[member_id]
        if group.state is ClassicState.EMPTY:
            reply(refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return NOTHING
        if self._is_no_news(group, member, request):
            reply(group.join_response(member_id))
            return NOTHING
        timeout_ms = rebalance_timeout_of(client, request)
        group.update(member, protocols_of(request), timeout_ms, request.session_timeout_ms, reply)
        return self._rebalance.rebalance_or_complete(group, now_ms)

    @staticmethod
    def _is_no_news(group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> bool:
        """Whether to repeat the last response, for a member that missed it.

        A leader that rejoins a stable group wants a rebalance, because topics may have changed.
        """
        if group.is_preparing:
            return False
        if group.state is ClassicState.STABLE and member.member_id == group.leader_id:
            return False
        return tuple(member.protocols) == protocols_of(request)

    def _add(
        self,
        client: Client,
        request: JoinGroupRequest,
        group: ClassicGroup,
        member_id: str,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            client.client_id,
            client.client_host,
            rebalance_timeout_of(client, request),
            request.session_timeout_ms,
            request.protocol_type,
            protocols_of(request),
        )
        member.is_new = True
        if group.is_preparing and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member, reply)
        # It cannot keep a session while it waits, because it does not know its member id yet.
        self._rebalance.expect_heartbeat(
            group.group_id, member_id, CLASSIC_NEW_MEMBER_JOIN_TIMEOUT_MS
        )
        return self._rebalance.rebalance_or_complete(group, now_ms)

    def _replace_static(
        self,
        client: Client,
        request: JoinGroupRequest,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        instance_id = request.group_instance_id or ""
        old_leader = group.leader_id
        self._rebalance.timers.cancel(self._rebalance.heartbeat_key(group.group_id, old_id))
        member = group.replace_static(instance_id, old_id, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        timeout_ms = rebalance_timeout_of(client, request)
        group.update(member, protocols_of(request), timeout_ms, request.session_timeout_ms, reply)
        self._rebalance.renew_session(group, member)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old member id right now.
            return self._rebalance.prepare_rebalance(group, now_ms)
        if group.state is not ClassicState.STABLE:
            return self._rebalance.complete_if_all_joined(group, now_ms)
        if group.select_protocol() != group.protocol_name:
            return self._rebalance.rebalance_or_complete(group, now_ms)

        def done(error: CoordinatorError | None) -> None:
            if error is not None:
                self._restore_static(group, instance_id, new_id, old_id, before)
                reply(refused(client_code(error)))
                return
            response = group.join_response(new_id)
            if client.api_version >= SKIP_ASSIGNMENT_SINCE:
                response.skip_assignment = group.leader_id == new_id
            else:
                # Old clients would assign if told that they lead. Naming the former leader keeps
                # them followers.
                response.members = []
                response.leader = old_leader or ""
            group.answer_join(member, response)

        return Write(None, [group.to_record(group.assignments())], then=done, replay=False)

    def _restore_static(
        self,
        group: ClassicGroup,
        instance_id: str,
        new_id: str,
        old_id: str,
        before: tuple[Protocols, int, int],
    ) -> None:
        member = group.members.get(new_id)
        if member is None:
            return
        group.update(member, *before, None)
        self._rebalance.timers.cancel(self._rebalance.heartbeat_key(group.group_id, new_id))
        self._rebalance.renew_session(group, group.replace_static(instance_id, new_id, old_id))
