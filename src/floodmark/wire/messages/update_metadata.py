"""UpdateMetadata (API key 6), versions 0 to 8.

The controller tells a broker the state of the cluster.
As in Kafka 3.9, the last release that has it.

- v1: several endpoints per broker.
- v2: racks.
- v3: listener names.
- v4: offline replicas.
- v5: broker epoch; partitions are grouped by topic.
- v6: flexible.
- v7: topic ids.
- v8: whether a KRaft controller sent it (KIP-866).
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class UpdateMetadataPartitionState:
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    zk_version: int = int32()
    replicas: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "4+", ignorable=True)


@struct
class UpdateMetadataTopicState:
    topic_name: str = string()
    topic_id: UUID = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@struct
class UpdateMetadataEndpoint:
    port: int = int32()
    host: str = string()
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16()


@struct
class UpdateMetadataBroker:
    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="2+", ignorable=True)


@message(ApiKey.UPDATE_METADATA, "request", versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    controller_id: int = int32()
    is_k_raft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message(ApiKey.UPDATE_METADATA, "response", versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: int = int16()
