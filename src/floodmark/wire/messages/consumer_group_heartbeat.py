"""ConsumerGroupHeartbeat (API key 68), versions 0 to 1.

Joins, keeps and leaves a group of the new protocol (KIP-848).

- v1: subscription by pattern; the member makes its own id (KIP-1082).
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, message, nested, string, struct, uuid


@struct
class RequestTopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request", versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[RequestTopicPartitions] | None = array(
        RequestTopicPartitions, nullable="0+", default=None
    )


@struct
class ResponseTopicPartitions:
    topic_id: UUID = uuid()
    partitions: list[int] = array("int32")


@struct
class Assignment:
    topic_partitions: list[ResponseTopicPartitions] = array(ResponseTopicPartitions)


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, "response", versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
