"""A client's snapshot of the cluster: brokers, topics, leaders. Immutable; refreshes replace it.

`cluster.py` builds it from Metadata responses. Producer, consumer and admin read it.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from floodmark.client.cluster.connection import Address
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.schema import ZERO_UUID


class TopicPartition(NamedTuple):
    """The name of a partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: Mapping[int, PartitionView]


@dataclass(frozen=True, slots=True)
class ClusterView:
    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    # The reason a requested topic is missing from `topics`.
    topic_errors: Mapping[str, int] = field(default_factory=dict)

    def leader_of(self, partition: TopicPartition) -> int:
        """The leader's node id, or NO_LEADER if unknown."""
        found = self.partition(partition)
        return NO_LEADER if found is None else found.leader

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def partition_count(self, topic: str) -> int:
        """Returns 0 for a topic that does not exist."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topic_id(self, topic: str) -> uuid.UUID:
        found = self.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The topic's name by id. Clients use few topics, so a linear search is enough."""
        return next((t.name for t in self.topics.values() if t.topic_id == topic_id), None)

    def merge(self, response: MetadataResponse, *, complete: bool) -> ClusterView:
        """The next view. A complete response lists every topic, so missing ones are gone."""
        topics = {} if complete else dict(self.topics)
        errors = {} if complete else dict(self.topic_errors)
        for answer in response.topics:
            if answer.name is None:
                continue
            errors.pop(answer.name, None)
            if answer.error_code == ErrorCode.NONE:
                topics[answer.name] = _topic_view(answer, self.topics.get(answer.name))
            else:
                topics.pop(answer.name, None)
                errors[answer.name] = answer.error_code
        return ClusterView(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                b.node_id: Broker(b.node_id, Address(b.host, b.port), b.rack)
                for b in response.brokers
            },
            topics=topics,
            topic_errors=errors,
        )

    def with_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, broker: Broker | None
    ) -> ClusterView:
        """A view with the leader from an error response (KIP-951), if newer than ours."""
        known = self.partition(partition)
        if known is None or leader_epoch <= known.leader_epoch:
            return self
        brokers = dict(self.brokers)
        if broker is not None:
            brokers[broker.node_id] = broker
        if leader not in brokers:
            return self
        topic = self.topics[partition.topic]
        changed = dataclasses.replace(known, leader=leader, leader_epoch=leader_epoch)
        partitions = {**topic.partitions, partition.partition: changed}
        topics = {**self.topics, topic.name: dataclasses.replace(topic, partitions=partitions)}
        return dataclasses.replace(self, brokers=brokers, topics=topics)


def _topic_view(answer: MetadataResponseTopic, known: TopicView | None) -> TopicView:
    same_topic = known is not None and known.topic_id == answer.topic_id
    partitions: dict[int, PartitionView] = {}
    for item in answer.partitions:
        old = known.partitions.get(item.partition_index) if known and same_topic else None
        # A lagging broker may still name the old leader: the higher leader epoch wins.
        if old is not None and 0 <= item.leader_epoch < old.leader_epoch:
            partitions[item.partition_index] = old
        else:
            partitions[item.partition_index] = _partition_view(item)
    return TopicView(answer.name or "", answer.topic_id, answer.is_internal, partitions)


def _partition_view(item: MetadataResponsePartition) -> PartitionView:
    return PartitionView(
        item.partition_index,
        item.leader_id,
        item.leader_epoch,
        tuple(item.replica_nodes),
        tuple(item.isr_nodes),
        tuple(item.offline_replicas),
    )
