"""CORE: a leader's AlterPartition requests to the controller, and the responses.

Called by `replication.isr_review`. Members carry the broker epoch of the fetch on which the leader
based its decision (KIP-903).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from floodmark.replication.partition import Leadership, ProposedReplica
from floodmark.vocabulary import TopicIdPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)


class IsrProposal(NamedTuple):
    """The in-sync replicas a leader asks for, and the state it is based on."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[ProposedReplica, ...]

    def is_of(self, leadership: Leadership) -> bool:
        """Whether nothing has been decided since."""
        return (self.leader_epoch, self.partition_epoch) == (
            leadership.leader_epoch,
            leadership.partition_epoch,
        )


class IsrAnswer(NamedTuple):
    """Without an error, `leader` and the rest describe the partition after the change."""

    error_code: ErrorCode
    leader: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[int, ...]


def request_of(
    broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
) -> AlterPartitionRequest:
    """In version 3: older versions cannot carry the members' epochs."""
    by_topic: dict[UUID, list[RequestPartitionData]] = {}
    for proposal in proposals:
        data = RequestPartitionData(
            partition_index=proposal.partition,
            leader_epoch=proposal.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=member,
                    broker_epoch=broker_epoch if member == broker_id else epoch,
                )
                for member, epoch in proposal.members
            ],
            partition_epoch=proposal.partition_epoch,
        )
        by_topic.setdefault(proposal.topic_id, []).append(data)
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        topics=[
            RequestTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic.items()
        ],
    )


def answers_of(response: AlterPartitionResponse) -> Iterator[tuple[TopicIdPartition, IsrAnswer]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield (topic.topic_id, partition.partition_index), _answer(partition)


def _answer(partition: ResponsePartitionData) -> IsrAnswer:
    return IsrAnswer(
        ErrorCode.of(partition.error_code),
        partition.leader_id,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(partition.isr),
    )
