"""DescribeTopicPartitions (API key 75), version 0.

Describes topics in pages, with eligible leader replicas (KIP-966).
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import (
    array,
    boolean,
    int16,
    int32,
    message,
    nested,
    string,
    struct,
    uuid,
)


@struct
class TopicRequest:
    name: str = string()


@struct
class RequestCursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "request", versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: RequestCursor | None = nested(RequestCursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array("int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32")


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: UUID = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@struct
class ResponseCursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "response", versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: ResponseCursor | None = nested(ResponseCursor, nullable="0+", default=None)
