"""A group of the new consumer protocol (KIP-848): its state, and how records change it. PURE.

`consumer.py` handles requests; it reads a group and never changes it. The `put_` and `remove_`
methods are the replay side, called by `shard.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from floodmark.coordinators.groups.classic_group import CONSUMER_PROTOCOL_TYPE
from floodmark.coordinators.groups.consumer_member import (
    Assignment,
    ConsumerMember,
    MemberState,
)
from floodmark.coordinators.groups.errors import unknown_member

NOTHING_ASSIGNED: Assignment = {}


class ResolvedRegex(NamedTuple):
    """The topics a pattern matched, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "checked_version",
        "group_epoch",
        "group_id",
        "has_legacy_metadata",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_members",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # As in Kafka 4.3: the first subscription raises it to 2, and a member without any
        # still gets an epoch above 0.
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        """The member that holds a partition or has yet to give it up."""
        self.has_legacy_metadata = False
        self.checked_version = -1
        """The topics version the group was last compared with. Soft state."""

    # State

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_all_classic(self) -> bool:
        """Whether no member uses the new protocol, where the group may not become classic again."""
        return all(member.classic is not None for member in self.members.values())

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise unknown_member(text)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None = None) -> Assignment:
        """A static member that replaces another takes over its target."""
        target = self.target.get(member_id)
        if target is None and instance_id is not None:
            target = self.target.get(self.static_members.get(instance_id, ""))
        return NOTHING_ASSIGNED if target is None else target

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in subscribed_topics(self.members.values(), self.regexes)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still holds partitions assigned to this one."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {})
            and (topic_id, partition) in self.owners
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    # Replay

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._disown(old)
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self.owners[(topic_id, partition)] = member.member_id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._disown(old)
            self._forget_instance(old)

    def _forget_instance(self, member: ConsumerMember) -> None:
        """Unless another member has already taken the instance id."""
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    if self.owners.get((topic_id, partition)) == member.member_id:
                        del self.owners[(topic_id, partition)]


def subscribed_topics(
    members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex]
) -> set[str]:
    topics: set[str] = set()
    for member in members:
        topics |= member.topic_names
        resolved = regexes.get(member.topic_regex)
        if resolved is not None:
            topics |= resolved.topics
    return topics
