"""StopReplica (API key 5), versions 0 to 4.

The controller tells a broker to stop, and perhaps delete, replicas.
As in Kafka 3.9, the last release that has it.

- v1: broker epoch; partitions are grouped by topic.
- v2: flexible.
- v3: leader epoch and deletion per partition (KIP-570).
- v4: whether a KRaft controller sent it (KIP-866).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, boolean, int16, int32, int64, message, string, struct


@struct
class StopReplicaPartitionV0:
    topic_name: str = string()
    partition_index: int = int32()


@struct
class StopReplicaTopicV1:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@struct
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@struct
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@message(ApiKey.STOP_REPLICA, "request", versions="0-4", flexible="2+")
class StopReplicaRequest:
    controller_id: int = int32()
    is_k_raft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


@struct
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(ApiKey.STOP_REPLICA, "response", versions="0-4", flexible="2+")
class StopReplicaResponse:
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
