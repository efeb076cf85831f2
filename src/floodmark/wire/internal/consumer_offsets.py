"""Which record of `__consumer_offsets` is of which class.

Called by the group coordinator when it replays its log, and by whoever dumps the topic. The type
stands in front of the key; the value's class follows from it. Types of share groups and streams
groups are left out: we have no such groups, and a reader skips what it does not know.
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
