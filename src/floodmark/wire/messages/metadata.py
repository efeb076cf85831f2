"""Metadata (API key 3), versions 0 to 13.

Tells brokers, topics, partitions and leaders.
v3 added the throttle time.

- v1: a null list of topics asks for all; racks, controller and internal topics.
- v2: cluster id.
- v4: the client says whether a missing topic may be created.
- v5: offline replicas.
- v6: the broker answers before it throttles.
- v7: leader epochs.
- v8: authorized operations, on request.
- v9: flexible.
- v10: topic ids.
- v11: the cluster's authorized operations moved to DescribeCluster (KIP-700).
- v12: topics can be asked for by id.
- v13: error code for the whole response.
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, boolean, int16, int32, message, string, struct, uuid


@struct
class MetadataRequestTopic:
    topic_id: UUID = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


@message(ApiKey.METADATA, "request", versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "5+", ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@message(ApiKey.METADATA, "response", versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", ignorable=True)
