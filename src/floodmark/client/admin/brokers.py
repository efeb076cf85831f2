"""The brokers of a cluster and their log folders. `admin.py` exposes these as methods."""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.client.admin.admin_types import ClusterDescription, LogDir, ReplicaSize
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Address
from floodmark.client.cluster.view import Broker, TopicPartition
from floodmark.client.errors import error_of, raise_for_code
from floodmark.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from floodmark.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    response: DescribeClusterResponse = await cluster.retry(
        lambda: cluster.request(DescribeClusterRequest())
    )
    raise_for_code(response.error_code, response.error_message)
    brokers = [Broker(b.broker_id, Address(b.host, b.port), b.rack) for b in response.brokers]
    return ClusterDescription(response.cluster_id, response.controller_id, brokers)


async def describe_log_dirs(
    cluster: Cluster, node_ids: Iterable[int] | None = None
) -> dict[int, list[LogDir]]:
    wanted = list(cluster.view.brokers) if node_ids is None else list(node_ids)
    described: dict[int, list[LogDir]] = {}
    for node_id in wanted:
        connection = await cluster.connection_to(node_id)
        response: DescribeLogDirsResponse = await connection.request(
            DescribeLogDirsRequest(topics=None)
        )
        raise_for_code(response.error_code)
        described[node_id] = [_log_dir(result) for result in response.results]
    return described


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        result.log_dir,
        [
            ReplicaSize(
                TopicPartition(topic.name, p.partition_index),
                p.partition_size,
                p.offset_lag,
                p.is_future_key,
            )
            for topic in result.topics
            for p in topic.partitions
        ],
        result.total_bytes,
        result.usable_bytes,
        error_of(result.error_code),
    )
