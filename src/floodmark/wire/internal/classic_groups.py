"""Records of `__consumer_offsets` that hold committed offsets and classic groups.

Used by the group coordinator. Values up to version 3 are what Kafka writes by default; version 4
is flexible and exists so that later fields can be tagged. Of OffsetCommitValue, version 1 had an
expiry time of its own, 3 added the leader epoch, 4 the topic id; of GroupMetadataValue, 1 added
the rebalance timeout, 2 the time of the last state change, 3 the group instance id.
"""

from uuid import UUID

from floodmark.wire.schema import array, binary, int32, int64, message, string, struct, uuid


@message(None, "data", versions="0", flexible=None)
class LegacyOffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(None, "data", versions="0", flexible=None)
class LegacyOffsetCommitValue:
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


@message(None, "data", versions="0", flexible=None)
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(None, "data", versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tag=0, ignorable=True)


@message(None, "data", versions="0", flexible=None)
class GroupMetadataKey:
    group: str = string()


@struct
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


@message(None, "data", versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
