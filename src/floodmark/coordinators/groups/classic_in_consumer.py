"""Classic-protocol members in a consumer group: JoinGroup to LeaveGroup (KIP-848). PURE.

A join works like a heartbeat: the coordinator assigns, nobody leads, the generation is the member
epoch, and SyncGroup fetches the member's assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.groups import consumer_records as records_of
from floodmark.coordinators.groups.classic import ClassicGroups
from floodmark.coordinators.groups.classic_group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    JoinReply,
    SyncReply,
)
from floodmark.coordinators.groups.classic_join import (
    MEMBER_ID_REQUIRED_SINCE,
    protocols_of,
    rebalance_timeout_of,
    refused,
)
from floodmark.coordinators.groups.classic_rebalance import NOTHING
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer import (
    ConsumerHeartbeats,
    check_not_fenced,
    known_static,
)
from floodmark.coordinators.groups.consumer_change import Change
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from floodmark.coordinators.groups.embedded_protocol import (
    owned_partitions,
    read_subscription,
    write_assignment,
)
from floodmark.coordinators.groups.errors import unknown_member
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.migration import (
    can_downgrade,
    check_upgrade,
    downgraded,
    upgraded,
)
from floodmark.coordinators.groups.records import GroupRecord
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.ports import CoordinatorError
from floodmark.coordinators.shard import Timers, Write
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.consumer_protocol import ConsumerProtocolSubscription
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from floodmark.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)
from floodmark.wire.schema import WireError

T = TypeVar("T")


class ClassicInConsumer:
    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        surroundings: Surroundings,
        classic: ClassicGroups,
    ) -> None:
        self._surroundings = surroundings
        self._classic = classic
        self.heartbeats = ConsumerHeartbeats(groups, timers, surroundings, self.remove)
        self._timers = self.heartbeats.timers

    # Moving between the protocols

    def upgrade(self, group: ClassicGroup) -> tuple[ConsumerGroup, list[GroupRecord]]:
        """Members that wait in the classic rebalance are told to rejoin, into the new group."""
        check_upgrade(group, self._surroundings.settings)
        consumer, records = upgraded(group, self._surroundings.image)
        for waiting in list(group.members.values()):
            group.answer_join(waiting, refused(ErrorCode.REBALANCE_IN_PROGRESS, waiting.member_id))
            group.answer_sync(
                waiting, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            )
        self._timers.start_timers(consumer)
        return consumer, records

    def remove(
        self, members: list[ConsumerMember], group: ConsumerGroup, answer: T, now_ms: int
    ) -> Write[T]:
        leaving = {member.member_id for member in members}
        rest = [m for m in group.members.values() if m.member_id not in leaving]
        if not members or not can_downgrade(rest, self._surroundings.settings):
            return self.heartbeats.removal(members, group, answer, now_ms)
        records = downgraded(group, rest, self._surroundings.image, now_ms)
        applied = self._becomes_classic(group, now_ms, rebalance=True)
        return Write(answer, records, applied=applied)

    def _becomes_classic(
        self, group: ConsumerGroup, now_ms: int, *, rebalance: bool
    ) -> Callable[[], None]:
        """The remaining steps once the records of the move are replayed."""
        group_id, member_ids = group.group_id, list(group.members)

        def applied() -> None:
            for member_id in member_ids:
                self._timers.cancel_timers_of(group_id, member_id)
            classic = self._classic.rebalance.find(group_id)
            if classic is not None:
                self._classic.start_sessions(classic, now_ms)
                if rebalance and classic.can_rebalance:
                    self._classic.rebalance.prepare_rebalance(classic, now_ms)

        return applied

    # JoinGroup

    def join(
        self,
        group: ConsumerGroup,
        client: Client,
        request: JoinGroupRequest,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        is_unknown = not request.member_id
        member_id = request.member_id or self._surroundings.new_uuid()
        self.heartbeats.check_room(group, member_id)
        _check_protocols(group, member_id, request)
        if (
            is_unknown
            and request.group_instance_id is None
            and client.api_version >= MEMBER_ID_REQUIRED_SINCE
        ):
            reply(refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return NOTHING
        subscription = _subscription(request)
        change = Change(group, [], client)
        self._find_joining(change, request, member_id, is_unknown)
        change.updated = _joined_member(change.member, client, request, subscription)
        self.heartbeats.apply_update(change, now_ms)
        if self._replaces_last_consumer(change):
            return self._join_and_downgrade(change, request, reply, now_ms)
        self.heartbeats.update_target(change, now_ms)
        changed = change.updated.topic_names != change.member.topic_names
        owned = owned_partitions(subscription, self._surroundings.image)
        self.heartbeats.reconcile(change, owned, subscription_changed=changed)
        timeouts = (request.session_timeout_ms, rebalance_timeout_of(client, request))

        def done(error: CoordinatorError | None) -> None:
            if error is not None:
                reply(refused(client_code(error), request.member_id))
                return
            self._timers.joined(group.group_id, member_id)
            self._timers.expect_heartbeat(group.group_id, member_id, timeouts[0])
            self._timers.expect_sync(group.group_id, member_id, timeouts[1])
            reply(_join_response(change.updated, request))

        return Write(
            None, change.records, applied=self.heartbeats.checked(group.group_id), then=done
        )

    def _find_joining(
        self, change: Change, request: JoinGroupRequest, member_id: str, is_unknown: bool
    ) -> None:
        group, instance_id = change.group, request.group_instance_id
        if instance_id is None:
            change.member = group.members.get(member_id) or ConsumerMember(member_id)
        elif is_unknown:
            self.heartbeats.take_static_place(change, member_id, instance_id, is_classic=True)
        else:
            change.member = known_static(group, instance_id)
            check_not_fenced(change.member, member_id, instance_id)

    def _replaces_last_consumer(self, change: Change) -> bool:
        """Whether a static member returned with the classic protocol and only such ones remain."""
        old = change.group.static_member(change.updated.instance_id)
        if old is None or old.classic is not None:
            return False
        return can_downgrade(list(change.members().values()), self._surroundings.settings)

    def _join_and_downgrade(
        self, change: Change, request: JoinGroupRequest, reply: JoinReply, now_ms: int
    ) -> Write[None]:
        group, joining = change.group, change.updated
        rest = list(change.members().values())
        records = change.records
        records += records_of.member_tombstones(group.group_id, joining.member_id)
        records += downgraded(group, rest, self._surroundings.image, now_ms)
        rebalance = group.assignment_epoch < change.group_epoch or any(
            m.held() != group.target_of(m.member_id, m.instance_id) for m in rest
        )
        generation_id = group.group_epoch

        def done(error: CoordinatorError | None) -> None:
            if error is not None:
                reply(refused(client_code(error), request.member_id))
                return
            response = _join_response(joining, request)
            response.generation_id = generation_id
            reply(response)

        return Write(
            None,
            records,
            applied=self._becomes_classic(group, now_ms, rebalance=rebalance),
            then=done,
        )

    # SyncGroup, Heartbeat, LeaveGroup

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, reply: SyncReply
    ) -> Write[None]:
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        classic = member.classic or ClassicMetadata(0, ())
        protocol_name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, protocol_name)
        ):
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._timers.expect_join(group.group_id, member)
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS)
        assignment = {t: frozenset(p) for t, p in member.assigned.items()}
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assignment, metadata, self._surroundings.image),
        )

        def done(error: CoordinatorError | None) -> None:
            if error is not None:
                reply(SyncGroupResponse(error_code=client_code(error)))
                return
            self._timers.synced(group.group_id, member.member_id)
            self._timers.expect_heartbeat(
                group.group_id, member.member_id, classic.session_timeout_ms
            )
            reply(response)

        return Write(None, then=done)

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Write[HeartbeatResponse]:
        """Tells the member to rejoin if it has something to learn or to do.

        That is a newer assignment, partitions to give up, or awaited partitions that are free now.
        A group without members of the new protocol gets a new assignment only by a join.
        """
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        classic = member.classic or ClassicMetadata(0, ())
        self._timers.expect_heartbeat(group.group_id, member.member_id, classic.session_timeout_ms)
        must_join = (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not group.waits_for_others(member)
            )
            or (group.assignment_epoch < group.group_epoch and group.is_all_classic)
        )
        if must_join:
            self._timers.expect_join(group.group_id, member)
        error_code = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
        return Write(HeartbeatResponse(error_code=error_code))

    def leave_classic(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
    ) -> Write[LeaveGroupResponse]:
        """Removes members of either protocol."""
        leaving: dict[str, ConsumerMember] = {}
        answers: list[MemberResponse] = []
        for identity in request.members:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            try:
                member = _identified(group, identity)
                leaving[member.member_id] = member
            except CoordinatorError as error:
                answer.error_code = error.error_code
            answers.append(answer)
        response = LeaveGroupResponse(members=answers)
        return self.remove(list(leaving.values()), group, response, now_ms)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = known_static(group, instance_id)
            check_not_fenced(member, member_id, instance_id)
        if member.classic is None:
            raise unknown_member(f"Member {member_id} does not use the classic protocol.")
        return member


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """An administrator names static members by instance id alone."""
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = known_static(group, identity.group_instance_id)
    if identity.member_id:
        check_not_fenced(member, identity.member_id, identity.group_instance_id)
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)


def _check_protocols(group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
    classic = [m.classic for m in group.members.values() if m.classic is not None]
    is_supported = request.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
        all(any(name == offered.name for name, _ in m.protocols) for m in classic)
        for offered in request.protocols
    )
    if not is_supported:
        raise CoordinatorError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member_id}'s protocols are not supported.",
        )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except WireError as problem:
        raise CoordinatorError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The subscription cannot be read."
        ) from problem


def _joined_member(
    member: ConsumerMember,
    client: Client,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_of(client, request),
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, protocols_of(request)),
    )


def _join_response(member: ConsumerMember, request: JoinGroupRequest) -> JoinGroupResponse:
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )
