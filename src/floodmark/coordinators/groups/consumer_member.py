"""A member of a group of the new consumer protocol (KIP-848): immutable, replaced on every change.

PURE. Used by `consumer_group.py`, which keeps members, and by all code that decides about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from floodmark.coordinators.groups.classic_group import Protocols
from floodmark.wire.internal.consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic."""
Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the member epoch in which it was assigned."""

LEFT = -1
"""The member epoch of a member that left."""
LEFT_FOR_A_WHILE = -2
"""The member epoch of a static member that announced its return."""


class MemberState(IntEnum):
    """A member's progress towards its target assignment. The values are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It still has partitions to give up."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others still hold."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """For a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    classic: ClassicMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def held(self) -> Assignment:
        """What the client may be consuming: its partitions, and those it has yet to give up."""
        held: dict[UUID, frozenset[int]] = {}
        for owned in (self.assigned, self.pending_revocation):
            for topic_id, partitions in owned.items():
                held[topic_id] = held.get(topic_id, frozenset()).union(partitions)
        return held

    def assignment_epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """Since which epoch the member has held the partition, including one it must give up."""
        for owned in (self.assigned, self.pending_revocation):
            assignment_epoch = owned.get(topic_id, {}).get(partition)
            if assignment_epoch is not None:
                return assignment_epoch
        return None

    # Records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=None if self.classic is None else _classic_value(self.classic),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms,
                tuple((p.name, p.metadata) for p in classic.supported_protocols),
            ),
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_topic_partitions(self.assigned),
            partitions_pending_revocation=_topic_partitions(self.pending_revocation),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=state,
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        return replace(
            self,
            member_epoch=LEFT,
            previous_member_epoch=LEFT,
            assigned={},
            pending_revocation={},
        )


def with_epochs(assignment: Assignment, assignment_epoch: int) -> Owned:
    return {
        topic_id: dict.fromkeys(sorted(partitions), assignment_epoch)
        for topic_id, partitions in assignment.items()
    }


def _classic_value(classic: ClassicMetadata) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=n, metadata=m) for n, m in classic.protocols],
    )


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=list(partitions),
            assignment_epochs=list(partitions.values()),
        )
        for topic_id, partitions in owned.items()
    ]


def _owned(topics: list[TopicPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 stored no epochs. The member's own is then the safe choice."""
    owned: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            owned[topic.topic_id] = dict.fromkeys(topic.partitions, member_epoch)
        else:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
