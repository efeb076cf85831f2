"""AlterPartition (API key 56), versions 2 to 3.

A leader asks the controller to change the ISR.

- v2: topics go by id (KIP-841).
- v3: ISR members come with their broker epochs (KIP-903).
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int8, int16, int32, int64, message, struct, uuid


@struct
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@struct
class RequestPartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array("int32", "2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@struct
class RequestTopicData:
    topic_id: UUID = uuid()
    partitions: list[RequestPartitionData] = array(RequestPartitionData)


@message(ApiKey.ALTER_PARTITION, "request", versions="2-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[RequestTopicData] = array(RequestTopicData)


@struct
class ResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@struct
class ResponseTopicData:
    topic_id: UUID = uuid()
    partitions: list[ResponsePartitionData] = array(ResponsePartitionData)


@message(ApiKey.ALTER_PARTITION, "response", versions="2-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[ResponseTopicData] = array(ResponseTopicData)
