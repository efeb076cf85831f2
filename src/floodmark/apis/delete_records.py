"""DeleteRecords (key 21), versions 0 to 2: move the start of a log forward.

An offset of -1 means the high watermark. v2 is flexible.
"""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.metadata.image import INTERNAL_TOPICS
from floodmark.storage.errors import StorageError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Of a partition that stands there twice the last offset counts, as in Kafka."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = {partition.partition_index: partition.offset for partition in topic.partitions}
        wanted.setdefault(topic.name, {}).update(offsets)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[_partition(context, name, *item) for item in offsets.items()],
            )
            for name, offsets in wanted.items()
        ]
    )


def _partition(
    context: RequestContext, topic: str, partition: int, wanted_offset: int
) -> DeleteRecordsPartitionResult:
    def answer(error_code: ErrorCode, low: int = NO_LOW_WATERMARK) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(
            partition_index=partition, low_watermark=low, error_code=error_code
        )

    key = (topic, partition)
    replica = context.services.replicas.find(key)
    if replica is None:
        return answer(context.services.replicas.missing(key))
    if topic in INTERNAL_TOPICS:
        return answer(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not replica.core.is_leader:
        return answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not replica.log.config.is_deleted:
        return answer(ErrorCode.POLICY_VIOLATION)
    high_watermark = replica.core.high_watermark
    offset = high_watermark if wanted_offset == HIGH_WATERMARK else wanted_offset
    if not 0 <= offset <= high_watermark:
        return answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        replica.log.advance_log_start(offset)
    except (StorageError, OSError):
        return answer(ErrorCode.KAFKA_STORAGE_ERROR)
    context.services.replicas.changed(key)
    return answer(ErrorCode.NONE, replica.log.log_start_offset)
