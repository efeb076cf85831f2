"""The records of a consumer group and its tombstones. PURE."""

from __future__ import annotations

from uuid import UUID

from floodmark.coordinators.groups.consumer_group import ConsumerGroup, ResolvedRegex
from floodmark.coordinators.groups.consumer_member import Assignment, ConsumerMember
from floodmark.coordinators.groups.records import MessageRecord
from floodmark.wire.internal.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from floodmark.wire.internal.consumer_offsets import RecordType


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_METADATA,
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member: ConsumerMember) -> MessageRecord:
    return _member_metadata(group_id, member.member_id, member)


def current_assignment(group_id: str, member: ConsumerMember) -> MessageRecord:
    return _current_assignment(group_id, member.member_id, member)


def target_assignment(group_id: str, member_id: str, target: Assignment) -> MessageRecord:
    return _target_assignment(group_id, member_id, target)


def target_epoch(group_id: str, assignment_epoch: int, timestamp_ms: int) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms
        ),
    )


def regex(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> MessageRecord:
    """None removes the pattern."""
    return MessageRecord(
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        None
        if resolved is None
        else ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
    )


def legacy_metadata_tombstone(group_id: str) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_PARTITION_METADATA,
        ConsumerGroupPartitionMetadataKey(group_id=group_id),
        None,
    )


def member_tombstones(group_id: str, member_id: str) -> list[MessageRecord]:
    return [
        _current_assignment(group_id, member_id, None),
        _target_assignment(group_id, member_id, None),
        _member_metadata(group_id, member_id, None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[MessageRecord]:
    """Parts first: the group's epoch goes last."""
    group_id = group.group_id
    ids = list(group.members)
    return [
        *(_current_assignment(group_id, member_id, None) for member_id in ids),
        *(_target_assignment(group_id, member_id, None) for member_id in ids),
        MessageRecord(
            RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
            ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            None,
        ),
        *(_member_metadata(group_id, member_id, None) for member_id in ids),
        *(regex(group_id, pattern, None) for pattern in group.regexes),
        legacy_metadata_tombstone(group_id),
        MessageRecord(
            RecordType.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey(group_id=group_id), None
        ),
    ]


def group_records(group: ConsumerGroup) -> list[MessageRecord]:
    """A whole group, for converting a classic one."""
    group_id = group.group_id
    members = group.members.values()
    return [
        *(member_metadata(group_id, member) for member in members),
        group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(_target_assignment(group_id, m, group.target_of(m)) for m in group.members),
        target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_assignment(group_id, member) for member in members),
    ]


def target_of_record(value: ConsumerGroupTargetAssignmentMemberValue) -> dict[UUID, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def _member_metadata(group_id: str, member_id: str, member: ConsumerMember | None) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_MEMBER_METADATA,
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        None if member is None else member.metadata_value(),
    )


def _current_assignment(
    group_id: str, member_id: str, member: ConsumerMember | None
) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        None if member is None else member.assignment_value(),
    )


def _target_assignment(group_id: str, member_id: str, target: Assignment | None) -> MessageRecord:
    return MessageRecord(
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        None
        if target is None
        else ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in target.items()
            ]
        ),
    )
