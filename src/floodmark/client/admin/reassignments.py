"""Partition reassignments: starts, cancels and lists moves to other brokers.

Called by `admin.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from floodmark.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A move in progress: the current replicas, and which of them are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the move is complete."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


async def alter(
    cluster: Cluster, moves: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Starts moving each partition to these brokers. None cancels a move."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.settings.request_timeout_ms),
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[_wanted(one.partition, moves[one]) for one in partitions],
            )
            for topic, partitions in group_by_topic(moves).items()
        ],
    )

    async def attempt() -> dict[TopicPartition, KafkaError | None]:
        connection = await cluster.controller_connection()
        response: AlterPartitionReassignmentsResponse = await connection.request(request)
        raise_for_code(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): error_of(
                one.error_code, one.error_message
            )
            for topic in response.responses
            for one in topic.partitions
        }

    return await cluster.retry(attempt)


async def under_way(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """The moves in progress, for these partitions or for all."""
    wanted = None if partitions is None else group_by_topic(partitions)
    request = ListPartitionReassignmentsRequest(
        timeout_ms=int(cluster.settings.request_timeout_ms),
        topics=None
        if wanted is None
        else [
            ListPartitionReassignmentsTopics(
                name=topic, partition_indexes=[one.partition for one in group]
            )
            for topic, group in wanted.items()
        ],
    )

    async def attempt() -> dict[TopicPartition, PartitionReassignment]:
        connection = await cluster.controller_connection()
        response: ListPartitionReassignmentsResponse = await connection.request(request)
        raise_for_code(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): PartitionReassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in response.topics
            for one in topic.partitions
        }

    return await cluster.retry(attempt)


def _wanted(index: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    brokers = None if replicas is None else list(replicas)
    return ReassignablePartition(partition_index=index, replicas=brokers)
