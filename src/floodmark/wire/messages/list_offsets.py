"""ListOffsets (API key 2), versions 1 to 11.

Finds offsets by timestamp, or the first and last ones.

- v1: one offset per partition, with its timestamp.
- v2: isolation level.
- v3: the broker answers before it throttles.
- v4: leader epochs, in both directions (KIP-320).
- v5: OFFSET_NOT_AVAILABLE may be answered.
- v6: flexible.
- v7: the record with the largest timestamp can be asked for (KIP-734).
- v8: the first offset on the local disk can be asked for (KIP-405).
- v9: the last tiered offset can be asked for (KIP-1005).
- v10: a timeout for looking in remote storage (KIP-1075).
- v11: the first offset that waits for upload can be asked for (KIP-1023).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


@struct
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(ApiKey.LIST_OFFSETS, "request", versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(ApiKey.LIST_OFFSETS, "response", versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
