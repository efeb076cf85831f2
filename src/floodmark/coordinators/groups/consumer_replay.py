"""Applies records of consumer groups to a shard: the only way they change. PURE.

A record of a part creates a missing group. A tombstone for a missing part does nothing, because
compaction may have removed what came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from floodmark.coordinators.groups.consumer_group import ConsumerGroup, ResolvedRegex
from floodmark.coordinators.groups.consumer_member import ConsumerMember
from floodmark.coordinators.groups.consumer_records import target_of_record
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.records import MessageRecord
from floodmark.wire.internal.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from floodmark.wire.internal.consumer_offsets import RecordType

NO_ASSIGNMENT = -1


def replay_consumer_record(groups: Groups, record: MessageRecord) -> None:
    group_id = record.key.group_id
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return
        group = groups[group_id] = ConsumerGroup(group_id)
    if record.record_type == RecordType.CONSUMER_GROUP_METADATA and record.value is None:
        del groups[group_id]
        return
    REPLAYS[record.record_type](group, record.key, record.value)


def _epoch(
    group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue
) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _legacy_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group.has_legacy_metadata = value is not None


def _member(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
    else:
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(member.with_metadata(value))


def _current_assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        member = member or ConsumerMember(key.member_id)
        group.put_member(member.with_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())


def _target_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = target_of_record(value)


def _regex(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    pattern = key.regular_expression
    if value is None:
        group.regexes.pop(pattern, None)
    else:
        topics = frozenset(value.topics)
        group.regexes[pattern] = ResolvedRegex(topics, value.version, value.timestamp)


Replay: TypeAlias = Callable[[ConsumerGroup, Any, Any], None]
"""The record's type decides the classes of its key and value."""

REPLAYS: Mapping[int, Replay] = MappingProxyType(
    {
        RecordType.CONSUMER_GROUP_METADATA: _epoch,
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: _legacy_metadata,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: _member,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _current_assignment,
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex,
    }
)
