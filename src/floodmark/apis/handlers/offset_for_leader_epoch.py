"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ends in the leader's log.

Followers and consumers use it to find where their log diverges from the leader's (KIP-101,
KIP-320).

- v2 fencing by the current leader epoch; v3 who asks; v4 flexible
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

ACCESS = Access(each=(each_topic(Operation.DESCRIBE, or_cluster=Operation.CLUSTER_ACTION),))


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_partition(context, topic.topic, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _partition(
    context: RequestContext, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    def refuse(error_code: ErrorCode) -> EpochEndOffset:
        return EpochEndOffset(error_code=error_code, partition=wanted.partition)

    key = (topic, wanted.partition)
    replica = context.services.replicas.find(key)
    if replica is None:
        return refuse(context.services.replicas.missing(key))
    if not replica.core.is_leader:
        return refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fenced = replica.core.fence(wanted.current_leader_epoch)
    if fenced is not ErrorCode.NONE:
        return refuse(fenced)
    leader_epoch, end_offset = replica.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset
    )
