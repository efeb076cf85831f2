"""Converts between AlterPartition messages and the decision. PURE.

Used where a leader's request reaches the controller, over the network or on the same broker.
"""

from __future__ import annotations

from uuid import UUID

from floodmark.controller.isr import AlterPartitionAnswer, IsrAnswer, IsrMember, IsrProposal
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)


def proposals_of(request: AlterPartitionRequest) -> list[IsrProposal]:
    return [
        IsrProposal(
            topic.topic_id,
            partition.partition_index,
            partition.leader_epoch,
            partition.partition_epoch,
            _members(partition),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def response_of(answer: AlterPartitionAnswer) -> AlterPartitionResponse:
    topics: dict[UUID, ResponseTopicData] = {}
    for one in answer.partitions:
        topic = topics.setdefault(one.topic_id, ResponseTopicData(topic_id=one.topic_id))
        topic.partitions.append(_partition(one))
    return AlterPartitionResponse(error_code=answer.error_code, topics=list(topics.values()))


def _members(partition: RequestPartitionData) -> list[IsrMember]:
    """Version 3 includes broker epochs (KIP-903)."""
    if partition.new_isr_with_epochs:
        return [IsrMember(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs]
    return [IsrMember(broker_id) for broker_id in partition.new_isr]


def _partition(one: IsrAnswer) -> ResponsePartitionData:
    if one.error_code is not ErrorCode.NONE or one.state is None:
        return ResponsePartitionData(partition_index=one.partition, error_code=one.error_code)
    return ResponsePartitionData(
        partition_index=one.partition,
        leader_id=one.state.leader,
        leader_epoch=one.state.leader_epoch,
        isr=list(one.state.isr),
        partition_epoch=one.state.partition_epoch,
    )
