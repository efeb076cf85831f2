"""Produce (API key 0), versions 3 to 13.

Appends record batches to partitions.
The broker advertises versions from 0 for the sake of old librdkafka and refuses 0 to 2.

- v3: batches of the current record format, and the transactional id.
- v4: KAFKA_STORAGE_ERROR may be answered.
- v5: the response tells the log start offset.
- v7: zstd batches are allowed (KIP-110).
- v8: the response names the records for which a batch was refused (KIP-467).
- v9: flexible.
- v10: the response names a newer leader and its address (KIP-951).
- v11: TRANSACTION_ABORTABLE may be answered (KIP-890).
- v12: a batch of a transaction adds its partition to the transaction by itself (KIP-890).
- v13: topics go by id instead of name (KIP-516).
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import (
    array,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
)


@struct
class PartitionProduceData:
    index: int = int32()
    records: memoryview | bytes | None = records(nullable="3+")


@struct
class TopicProduceData:
    name: str = string("3-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(ApiKey.PRODUCE, "request", versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = string(nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


@struct(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = string("3-12", ignorable=True)
    topic_id: UUID = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


@message(ApiKey.PRODUCE, "response", versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
