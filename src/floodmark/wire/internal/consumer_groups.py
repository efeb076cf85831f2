"""Records of `__consumer_offsets` that hold groups of the new consumer protocol (KIP-848).

Used by the group coordinator. A group is many records: its epoch, a record for each member, the
target assignment as a whole and for each member, what each member owns now, and the topics that
each regular expression resolved to. Kafka 4.1 replaced the partition metadata record by a hash in
the group's own record (KIP-1101); it is here for logs that still have it.
"""

from uuid import UUID

from floodmark.wire.schema import (
    array,
    binary,
    int8,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uuid,
)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupMetadataKey:
    group_id: str = string()


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string()


@struct
class PartitionMetadata:
    partition: int = int32()
    racks: list[str] = array("string")


@struct
class TopicMetadata:
    topic_id: UUID = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = array(TopicMetadata)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol:
    name: str = string()
    metadata: bytes = binary()


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0)


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


@message(None, "data", versions="0", flexible=None)
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@message(None, "data", versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
