"""What consumers send each other through the coordinator: subscriptions and assignments.

Used by the client's assignors, and by the group coordinator where it must read them: for the topics
that a group subscribes to, and for groups that move to the new protocol. Version 1 added the owned
partitions (KIP-429), 2 the generation (KIP-792), 3 the rack (KIP-881). JoinGroup and SyncGroup
carry these bytes, with their version in front.
"""

from floodmark.wire.schema import array, binary, int32, message, string, struct


@struct
class SubscriptionTopicPartition:
    topic: str = string()
    partitions: list[int] = array("int32")


@message(None, "data", versions="0-3", flexible=None)
class ConsumerProtocolSubscription:
    topics: list[str] = array("string")
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = array(
        SubscriptionTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@struct
class AssignmentTopicPartition:
    topic: str = string()
    partitions: list[int] = array("int32")


@message(None, "data", versions="0-3", flexible=None)
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignmentTopicPartition] = array(AssignmentTopicPartition)
    user_data: bytes | None = binary(nullable="0+", default=None)
