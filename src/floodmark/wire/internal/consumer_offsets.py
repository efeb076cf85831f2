"""Maps the record types of `__consumer_offsets` to their classes.

Used by the group coordinator when it replays its log, and by tools that dump the topic. The key
starts with the type, which also determines the value's class. Types of share groups and streams
groups are missing: we have no such groups, and readers skip unknown types.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from floodmark.wire.internal import classic_groups as classic
from floodmark.wire.internal import consumer_groups as consumer


class RecordType(IntEnum):
    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


KEY_CLASSES: Mapping[int, type[Any]] = MappingProxyType(
    {
        RecordType.LEGACY_OFFSET_COMMIT: classic.LegacyOffsetCommitKey,
        RecordType.OFFSET_COMMIT: classic.OffsetCommitKey,
        RecordType.GROUP_METADATA: classic.GroupMetadataKey,
        RecordType.CONSUMER_GROUP_METADATA: consumer.ConsumerGroupMetadataKey,
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: consumer.ConsumerGroupPartitionMetadataKey,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: consumer.ConsumerGroupMemberMetadataKey,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
            consumer.ConsumerGroupTargetAssignmentMetadataKey
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
            consumer.ConsumerGroupTargetAssignmentMemberKey
        ),
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
            consumer.ConsumerGroupCurrentMemberAssignmentKey
        ),
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: consumer.ConsumerGroupRegularExpressionKey,
    }
)

VALUE_CLASSES: Mapping[int, type[Any]] = MappingProxyType(
    {
        RecordType.LEGACY_OFFSET_COMMIT: classic.LegacyOffsetCommitValue,
        RecordType.OFFSET_COMMIT: classic.OffsetCommitValue,
        RecordType.GROUP_METADATA: classic.GroupMetadataValue,
        RecordType.CONSUMER_GROUP_METADATA: consumer.ConsumerGroupMetadataValue,
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: consumer.ConsumerGroupPartitionMetadataValue,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: consumer.ConsumerGroupMemberMetadataValue,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
            consumer.ConsumerGroupTargetAssignmentMetadataValue
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
            consumer.ConsumerGroupTargetAssignmentMemberValue
        ),
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
            consumer.ConsumerGroupCurrentMemberAssignmentValue
        ),
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: consumer.ConsumerGroupRegularExpressionValue,
    }
)
