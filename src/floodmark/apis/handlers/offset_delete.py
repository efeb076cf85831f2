"""OffsetDelete (key 47), version 0: delete a group's offsets, unless it still reads their topics.

Each missing partition gets UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

ACCESS = Access(
    needs=(group(Operation.DELETE),), each=(each_topic(Operation.READ, handles_none=True),)
)


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Deferred[OffsetDeleteResponse]:
    missing: dict[str, list[int]] = {}
    for topic in request.topics:
        known = context.services.image.topics.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        absent = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if absent:
            missing.setdefault(topic.name, []).extend(absent)
            topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
    request.topics = [topic for topic in request.topics if topic.partitions]
    answer = context.services.groups.delete_offsets(request)
    return after(answer, lambda response: _with_missing(response, missing)) if missing else answer


def _with_missing(
    response: OffsetDeleteResponse, missing: dict[str, list[int]]
) -> OffsetDeleteResponse:
    if response.error_code:
        return response
    by_name = {topic.name: topic for topic in response.topics}
    for name, indexes in missing.items():
        if name not in by_name:
            by_name[name] = OffsetDeleteResponseTopic(name=name)
            response.topics.append(by_name[name])
        by_name[name].partitions += [
            OffsetDeleteResponsePartition(
                partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for index in indexes
        ]
    return response
