"""DeleteRecords (key 21), versions 0 to 2: move the start of a log forward.

An offset of -1 means the high watermark. Responds once all live replicas have followed, or at the
request's timeout. v2 is flexible.
"""

from __future__ import annotations

from functools import partial

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import INTERNAL_TOPICS
from floodmark.promise import Promise
from floodmark.replication.waiting import Deletion
from floodmark.storage.errors import StorageError
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1

ACCESS = Access(each=(each_topic(Operation.DELETE),))


def handle(
    context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Promise[DeleteRecordsResponse]:
    """If a partition appears twice, the last offset counts, as in Kafka."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = {partition.partition_index: partition.offset for partition in topic.partitions}
        wanted.setdefault(topic.name, {}).update(offsets)
    deletions = {
        (name, partition): _delete(context, (name, partition), offset)
        for name, offsets in wanted.items()
        for partition, offset in offsets.items()
    }
    services = context.services
    outcome = services.replicas.deleted(deletions, services.image.is_live, request.timeout_ms)
    answer = partial(_answer, list(wanted))
    return outcome.map(answer) if isinstance(outcome, Promise) else answer(outcome)


def _delete(context: RequestContext, key: TopicPartition, wanted_offset: int) -> Deletion:
    replicas = context.services.replicas
    replica = replicas.find(key)
    if replica is None:
        return Deletion(replicas.missing(key))
    if key[0] in INTERNAL_TOPICS:
        return Deletion(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not replica.core.is_leader:
        return Deletion(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not replica.log.config.is_deleted:
        return Deletion(ErrorCode.POLICY_VIOLATION)
    high_watermark = replica.core.high_watermark
    offset = high_watermark if wanted_offset == HIGH_WATERMARK else wanted_offset
    if not 0 <= offset <= high_watermark:
        return Deletion(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        replica.log.advance_log_start(offset)
    except (StorageError, OSError):
        return Deletion(ErrorCode.KAFKA_STORAGE_ERROR)
    replicas.changed(key)
    return Deletion(NO_ERROR, offset)


def _answer(topics: list[str], deletions: dict[TopicPartition, Deletion]) -> DeleteRecordsResponse:
    results = {name: DeleteRecordsTopicResult(name=name, partitions=[]) for name in topics}
    for (name, partition), deletion in deletions.items():
        results[name].partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=partition,
                low_watermark=deletion.low_watermark,
                error_code=deletion.error_code,
            )
        )
    return DeleteRecordsResponse(topics=list(results.values()))
