"""OffsetCommit (API key 8), versions 2 to 10.

Stores the offsets of a consumer group.

- v2: generation, member and retention time.
- v3: throttle time.
- v4: the broker answers before it throttles.
- v5: no retention time any more.
- v6: leader epochs (KIP-320).
- v7: group instance id (KIP-345).
- v8: flexible.
- v9: may be used by members of the new protocol (KIP-848).
- v10: topics go by id instead of name.
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="2+")


@struct
class OffsetCommitRequestTopic:
    name: str = string("2-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(ApiKey.OFFSET_COMMIT, "request", versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    name: str = string("2-9", ignorable=True)
    topic_id: UUID = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(ApiKey.OFFSET_COMMIT, "response", versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
