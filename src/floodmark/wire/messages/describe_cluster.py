"""DescribeCluster (API key 60), versions 0 to 2.

Tells the cluster's id, brokers and controller.

- v1: brokers or controllers can be asked for (KIP-919).
- v2: fenced brokers, on request (KIP-1073).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, boolean, int8, int16, int32, message, string, struct


@message(ApiKey.DESCRIBE_CLUSTER, "request", versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@struct
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@message(ApiKey.DESCRIBE_CLUSTER, "response", versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
