"""ListOffsets (key 2), versions 1 to 11: the offset for a timestamp, or at either end of the log.

Special timestamps: -1 latest, -2 earliest, -3 the largest timestamp, -4 earliest local, -5 latest
tiered, -6 earliest not yet tiered. Nothing is tiered here: -4 equals -2, and -5, -6 find nothing.

- v2 isolation level; v4 leader epoch fencing; v5 OFFSET_NOT_AVAILABLE (KIP-207); v6 flexible
- v7, v8, v9, v11 add -3, -4, -5, -6
- v10 a timeout for tiered reads, unused here
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any, NamedTuple

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.slices import in_slices
from floodmark.records.errors import CorruptRecord
from floodmark.replication.outcomes import ISOLATIONS
from floodmark.replication.replica import Replica
from floodmark.steps import Steps, Unfinished, begin
from floodmark.storage.errors import StorageError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

AT_ONCE_MS = 5.0
"""Longer work continues in slices."""

CONSUMER_REPLICA_ID = -1
DEBUG_REPLICA_ID = -2

LEADER_EPOCH_SINCE = 4
NOT_AVAILABLE_SINCE = 5
NEEDS_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

ACCESS = Access(each=(each_topic(Operation.DESCRIBE),))


class Found(NamedTuple):
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


def handle(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    clock = context.services.clock
    work = begin(_answer(context, request), clock.monotonic_ms, AT_ONCE_MS)
    return in_slices(work, clock) if isinstance(work, Unfinished) else work


def _answer(context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    """A partition requested twice is refused, because the result would be ambiguous."""
    if request.isolation_level not in ISOLATIONS:
        return _refuse_all(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    asked = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    by_topic: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        answers = by_topic.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            if asked[topic.name, index] > 1:
                answers[index] = _refuse(index, ErrorCode.INVALID_REQUEST)
            else:
                answers[index] = yield from _partition(context, request, topic.name, partition)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(answers.values()))
            for name, answers in by_topic.items()
        ]
    )


def _refuse_all(request: ListOffsetsRequest, error_code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_refuse(p.partition_index, error_code) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _refuse(index: int, error_code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error_code)


def _partition(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> Steps[ListOffsetsPartitionResponse]:
    def refuse(error_code: ErrorCode) -> ListOffsetsPartitionResponse:
        return _refuse(wanted.partition_index, error_code)

    if wanted.timestamp < EARLIEST_PENDING_UPLOAD or context.api_version < NEEDS_VERSION.get(
        wanted.timestamp, 0
    ):
        return refuse(ErrorCode.UNSUPPORTED_VERSION)
    key = (topic, wanted.partition_index)
    replica = context.services.replicas.find(key)
    if replica is None:
        return refuse(context.services.replicas.missing(key))
    if not replica.core.is_leader and request.replica_id != DEBUG_REPLICA_ID:
        return refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fenced = replica.core.fence(wanted.current_leader_epoch)
    if fenced is not ErrorCode.NONE:
        return refuse(fenced)
    is_consumer = request.replica_id == CONSUMER_REPLICA_ID
    end_offset = replica.readable_end(
        ISOLATIONS[request.isolation_level], is_follower=not is_consumer
    )
    try:
        found = yield from _find(replica, wanted.timestamp, end_offset)
    except (StorageError, OSError):
        return refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptRecord:
        return refuse(ErrorCode.CORRUPT_MESSAGE)
    if is_consumer and _may_go_back(replica, wanted.timestamp, found):
        if context.api_version >= NOT_AVAILABLE_SINCE:
            return refuse(ErrorCode.OFFSET_NOT_AVAILABLE)
        return refuse(ErrorCode.LEADER_NOT_AVAILABLE)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if context.api_version >= LEADER_EPOCH_SINCE else -1,
    )


def _may_go_back(replica: Replica, timestamp: int, found: Found) -> bool:
    """Whether the previous leader may have returned a later offset (KIP-207).

    A new leader's high watermark may lag behind what was committed. An offset below it is always
    right.
    """
    if timestamp != LATEST and found.offset >= 0:
        return False
    if timestamp in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return False
    return replica.core.is_leader and not replica.core.knows_high_watermark


def _find(replica: Replica, timestamp: int, end_offset: int) -> Steps[Found]:
    log = replica.log
    if timestamp == LATEST:
        return Found(-1, end_offset, replica.core.leadership.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        leader_epoch = log.leader_epochs.epoch_for(log.log_start_offset)
        return Found(-1, log.log_start_offset, leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found()
    if timestamp == MAX_TIMESTAMP:
        found = yield from log.max_timestamp_offset(end_offset)
    else:
        found = yield from log.offset_for_timestamp(timestamp, end_offset)
    return Found() if found is None else Found(*found)
