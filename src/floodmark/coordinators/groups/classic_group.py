"""A classic group and its members: state and small steps on it. PURE.

`classic.py` decides when to take which step. A group counts the members that wait for their
JoinGroup response and the support for each protocol, because every join needs both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from floodmark.coordinators.groups.errors import unknown_member
from floodmark.coordinators.groups.records import MessageRecord, group_metadata
from floodmark.coordinators.groups.states import CAN_REBALANCE, MAY_FOLLOW, ClassicState
from floodmark.coordinators.ports import CoordinatorError
from floodmark.invariant import invariant
from floodmark.wire.compiler import decode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.classic_groups import GroupMetadataValue, MemberMetadata
from floodmark.wire.internal.consumer_protocol import ConsumerProtocolSubscription
from floodmark.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from floodmark.wire.messages.sync_group import SyncGroupResponse
from floodmark.wire.schema import WireError

CONSUMER_PROTOCOL_TYPE = "consumer"

Protocols: TypeAlias = Sequence[tuple[str, bytes]]
JoinReply: TypeAlias = Callable[[JoinGroupResponse], None]
SyncReply: TypeAlias = Callable[[SyncGroupResponse], None]


class ClassicMember:
    """`join_reply` and `sync_reply` are set while the member waits for those responses."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "committed_ms",
        "instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.committed_ms = 0
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The member's favourite among the protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def is_excused(self) -> bool:
        """While it waits for a response, a member cannot send heartbeats.

        A new one is not excused, so that clients that gave up and joined again do not leave dead
        members behind.
        """
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)


class ClassicGroup:
    __slots__ = (
        "generation_id",
        "group_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported_protocols",
        "waiting_joins",
    )

    def __init__(
        self,
        group_id: str,
        state: ClassicState = ClassicState.EMPTY,
        *,
        state_timestamp_ms: int | None = None,
        generation_id: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.waiting_joins = 0
        self.supported_protocols: dict[str, int] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False

    # State

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_preparing(self) -> bool:
        return self.state is ClassicState.PREPARING_REBALANCE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def can_rebalance(self) -> bool:
        return self.state in CAN_REBALANCE

    @property
    def is_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member sets the pace."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return len(self.members) == self.waiting_joins and not self.pending_joins

    def is_subscribed_to(self, topic: str) -> bool:
        """A consumer group with unreadable subscriptions counts as subscribed to all topics."""
        if self.subscribed_topics is None:
            return self.is_consumer_protocol
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported_protocols.get(name, 0) == size for name in names
        )

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                raise unknown_member()
            if current_id != member_id:
                raise CoordinatorError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise unknown_member()

    # Members

    def add(self, member: ClassicMember, reply: JoinReply | None = None) -> None:
        if member.instance_id is not None:
            invariant(
                member.instance_id not in self.static_members,
                f"instance {member.instance_id} is already in group {self.group_id}",
            )
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self._await_join(member, reply)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            self._await_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        reply: JoinReply | None,
    ) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._await_join(member, reply)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """A restarted static member replaces its former self, which is fenced (KIP-345)."""
        old = self.members[old_id]
        self.answer_join(
            old, JoinGroupResponse(member_id=old_id, error_code=ErrorCode.FENCED_INSTANCE_ID)
        )
        self.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        del self.members[old_id]
        member = ClassicMember(
            new_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        self.pending_syncs.discard(old_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        reply = member.join_reply
        if reply is None:
            return False
        self._await_join(member, None)
        reply(response)
        return True

    @staticmethod
    def answer_sync(member: ClassicMember, response: SyncGroupResponse) -> bool:
        reply, member.sync_reply = member.sync_reply, None
        if reply is None:
            return False
        reply(response)
        return True

    def _await_join(self, member: ClassicMember, reply: JoinReply | None) -> None:
        self.waiting_joins += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def _count_protocols(self, member: ClassicMember, step: int) -> None:
        for name, _ in member.protocols:
            count = self.supported_protocols.get(name, 0) + step
            if count:
                self.supported_protocols[name] = count
            else:
                self.supported_protocols.pop(name, None)

    # Generations

    def transition(self, state: ClassicState, now_ms: int) -> None:
        invariant(
            state in MAY_FOLLOW[self.state],
            f"group {self.group_id} cannot go from {self.state.value} to {state.value}",
        )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def elect_joined_leader(self) -> bool:
        """Replaces a leader that did not rejoin by a member that did. False if nobody did."""
        if self.leader_id is None:
            return False
        leader = self.members.get(self.leader_id)
        if leader is not None and leader.join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    def select_protocol(self) -> str:
        """Members vote for their favourite common protocol. The first with the most votes wins."""
        size = len(self.members)
        candidates = {name for name, count in self.supported_protocols.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.read_subscriptions()
        self.transition(
            ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms
        )
        self.pending_syncs.clear()

    def read_subscriptions(self) -> frozenset[str] | None:
        """The topics of all members; None if this is not a consumer group, or they are unreadable.

        Version 0 is a prefix of all versions, so every subscription is read as version 0.
        """
        if not self.is_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                metadata = member.metadata(self.protocol_name)
                topics.update(decode(ConsumerProtocolSubscription, metadata, 0, 2).topics)
        except WireError:
            return None
        return frozenset(topics)

    # Messages

    def join_response(self, member_id: str) -> JoinGroupResponse:
        """What a member learns of the generation. Only the leader sees all members."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=self.response_members() if member_id == self.leader_id else [],
        )

    def response_members(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def to_record(self, assignments: dict[str, bytes]) -> MessageRecord:
        return group_metadata(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
                current_state_timestamp=(
                    -1 if self.state_timestamp_ms is None else self.state_timestamp_ms
                ),
                members=[
                    MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol_name),
                        assignment=assignments.get(member.member_id, b""),
                    )
                    for member in self.members.values()
                ],
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        timestamp_ms = value.current_state_timestamp
        group = cls(
            group_id,
            ClassicState.STABLE if value.members else ClassicState.EMPTY,
            state_timestamp_ms=None if timestamp_ms == -1 else timestamp_ms,
            generation_id=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
        )
        for member in value.members:
            rebalance_ms = member.rebalance_timeout
            group.add(
                ClassicMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.session_timeout if rebalance_ms == -1 else rebalance_ms,
                    member.session_timeout,
                    value.protocol_type,
                    ((value.protocol or "", member.subscription),),
                    member.assignment,
                )
            )
        group.subscribed_topics = group.read_subscriptions()
        return group
