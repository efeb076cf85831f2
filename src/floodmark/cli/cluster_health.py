"""Summarises a cluster's health from one snapshot of its metadata. PURE.

Used by `floodmark cluster status` and `floodmark broker list`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from floodmark.cli.output import Document
from floodmark.client.admin.admin_types import ClusterDescription
from floodmark.client.admin.reassignments import PartitionReassignment
from floodmark.client.cluster.view import PartitionView, TopicPartition, TopicView
from floodmark.vocabulary import NO_LEADER


def is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.in_sync_replicas) < len(partition.replicas)


def broker_rows(cluster: ClusterDescription, topics: Iterable[TopicView]) -> list[Document]:
    """One row per running broker: partitions led, replicas held, replicas out of sync."""
    partitions = [one for _, one in _partitions(topics)]
    return [
        {
            "broker": broker.node_id,
            "address": str(broker.address),
            "rack": broker.rack,
            "controller": broker.node_id == cluster.controller_id,
            "leads": sum(one.leader == broker.node_id for one in partitions),
            "replicas": sum(broker.node_id in one.replicas for one in partitions),
            "out_of_sync": sum(
                broker.node_id in one.replicas and broker.node_id not in one.in_sync_replicas
                for one in partitions
            ),
        }
        for broker in sorted(cluster.brokers, key=lambda broker: broker.node_id)
    ]


def summary(
    cluster: ClusterDescription,
    topics: Iterable[TopicView],
    moves: Mapping[TopicPartition, PartitionReassignment],
) -> Document:
    """`missing_brokers` lists brokers that hold replicas but are not running."""
    topics = list(topics)
    partitions = dict(_partitions(topics))
    running = {broker.node_id for broker in cluster.brokers}
    named = {replica for one in partitions.values() for replica in one.replicas}
    without_leader = _named(partitions, lambda one: one.leader == NO_LEADER)
    behind = _named(partitions, is_under_replicated)
    elsewhere = _named(partitions, lambda one: one.leader not in (NO_LEADER, one.replicas[0]))
    return {
        "cluster_id": cluster.cluster_id,
        "controller": None if cluster.controller_id == NO_LEADER else cluster.controller_id,
        "healthy": not without_leader and not behind and cluster.controller_id != NO_LEADER,
        "brokers": broker_rows(cluster, topics),
        "missing_brokers": sorted(named - running),
        "topics": len(topics),
        "partitions": len(partitions),
        "without_leader": without_leader,
        "under_replicated": behind,
        "not_led_by_preferred": elsewhere,
        "moving": [str(partition) for partition in sorted(moves)],
    }


def _partitions(topics: Iterable[TopicView]) -> Iterator[tuple[TopicPartition, PartitionView]]:
    for topic in topics:
        for index, partition in sorted(topic.partitions.items()):
            yield TopicPartition(topic.name, index), partition


def _named(partitions: Mapping[TopicPartition, PartitionView], is_so: Any) -> list[str]:
    return [str(name) for name, partition in partitions.items() if is_so(partition)]
