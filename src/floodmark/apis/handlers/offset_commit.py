"""OffsetCommit (key 8), versions 2 to 10: store a group's offsets.

Refuses missing partitions one by one and commits the rest.

- v5 no retention time; v6 leader epochs; v7 static members; v8 flexible
- v9 members of the new protocol (member epochs, GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH)
- v10 topic ids instead of names
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10

ACCESS = Access(needs=(group(Operation.READ),), each=(each_topic(Operation.READ),))


def handle(context: RequestContext, request: OffsetCommitRequest) -> Deferred[OffsetCommitResponse]:
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        _sort(context, topic, accepted, refused)
    if not accepted:
        return _merged(OffsetCommitResponse(), refused)
    request.topics = accepted
    answer = context.services.groups.commit_offsets(context.api_version, request)
    return after(answer, lambda response: _merged(response, refused)) if refused else answer


def _sort(
    context: RequestContext,
    topic: OffsetCommitRequestTopic,
    accepted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    image = context.services.image
    by_id = context.api_version >= TOPIC_IDS_SINCE
    known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
    if known is None:
        error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused.append(_refuse(topic, [p.partition_index for p in topic.partitions], error_code))
        return
    topic.name, topic.topic_id = known.name, known.topic_id
    count = len(known.partitions)
    for partition in topic.partitions:
        if not 0 <= partition.partition_index < count:
            _refuse_missing(topic, count, refused)
            break
    if topic.partitions:
        accepted.append(topic)


def _refuse_missing(
    topic: OffsetCommitRequestTopic, count: int, refused: list[OffsetCommitResponseTopic]
) -> None:
    """Removes partitions that do not exist from the topic."""
    missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
    refused.append(_refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]


def _refuse(
    topic: OffsetCommitRequestTopic, indexes: list[int], error_code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=index, error_code=error_code)
            for index in indexes
        ],
    )


def _merged(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """One entry per topic, even if some partitions were refused, as Java's client expects."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for topic in refused:
        entry = by_topic.get((topic.name, topic.topic_id))
        if entry is None:
            by_topic[(topic.name, topic.topic_id)] = topic
            response.topics.append(topic)
        else:
            entry.partitions += topic.partitions
    return response
