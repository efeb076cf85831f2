"""DeleteRecords (key 21), versions 0 to 2: move the start of a log forward.

An offset of -1 means the high watermark. v2 is flexible.
"""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.storage.errors import StorageError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_partition(context, topic.name, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _partition(
    context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    def answer(error_code: ErrorCode, low: int = NO_LOW_WATERMARK) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=low, error_code=error_code
        )

    key = (topic, wanted.partition_index)
    replica = context.services.replicas.find(key)
    if replica is None:
        return answer(context.services.replicas.missing(key))
    if not replica.core.is_leader:
        return answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not replica.log.config.is_deleted:
        return answer(ErrorCode.POLICY_VIOLATION)
    high_watermark = replica.core.high_watermark
    offset = high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
    if not 0 <= offset <= high_watermark:
        return answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        replica.log.advance_log_start(offset)
    except (StorageError, OSError):
        return answer(ErrorCode.KAFKA_STORAGE_ERROR)
    context.services.replicas.changed(key)
    return answer(ErrorCode.NONE, replica.log.log_start_offset)
