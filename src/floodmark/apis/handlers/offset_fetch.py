"""OffsetFetch (key 9), versions 1 to 10: the committed offsets of groups.

An unknown group, or a partition without a commit, returns offset -1 and no error.

- v2 all topics of a group; v5 leader epochs; v6 flexible
- v7 `require_stable`: offsets of open transactions are UNSTABLE_OFFSET_COMMIT (KIP-447)
- v8 many groups; v9 member epochs of the new protocol; v10 topic ids instead of names
"""

from __future__ import annotations

from floodmark.apis.access import Access, Each, Hides, Needs, each_topic
from floodmark.apis.authorizer import Guard, Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.apis.group_requests import when_all
from floodmark.coordinators.groups.offset_requests import no_offset
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_FIELD_SINCE = 2


def _without_topics(
    context: RequestContext,
    guard: Guard,
    group: OffsetFetchRequestGroup,
    refusal: OffsetFetchResponseGroup,
) -> None:
    refusal.topics = []


ACCESS = Access(
    needs=(
        Needs(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            names="group_id",
            versions="1-7",
        ),
    ),
    each=(
        Each(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            items="groups",
            answers="groups",
            name=lambda context, group: group.group_id,
            amend=_without_topics,
            versions="8+",
        ),
        each_topic(Operation.DESCRIBE, handles_none=True, versions="1-7"),
        each_topic(Operation.DESCRIBE, within="groups", versions="8+"),
    ),
    answer=(
        Hides(operation=Operation.DESCRIBE, kind=ResourceKind.TOPIC, items="topics", name="name"),
        Hides(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TOPIC,
            items="topics",
            name="name",
            within="groups",
        ),
    ),
)


def handle(context: RequestContext, request: OffsetFetchRequest) -> Deferred[OffsetFetchResponse]:
    if context.api_version >= MANY_GROUPS_SINCE:
        answers = [_fetch(context, group, request.require_stable) for group in request.groups]
        return when_all(answers, lambda groups: OffsetFetchResponse(groups=groups))
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )
    answer = _fetch(context, group, request.require_stable)
    return after(answer, lambda fetched: _single(context, request, fetched))


def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]:
    groups = context.services.groups
    if context.api_version < TOPIC_IDS_SINCE:
        return groups.fetch_offsets(group, require_stable=require_stable)
    unknown = _name_topics(context, group)
    answer = groups.fetch_offsets(group, require_stable=require_stable)
    return after(answer, lambda fetched: _with_ids(context, fetched, unknown))


def _name_topics(
    context: RequestContext, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Fills in names by id. Removes topics with an unknown id and answers them as such."""
    if group.topics is None:
        return []
    unknown: list[OffsetFetchResponseTopics] = []
    named: list[OffsetFetchRequestTopics] = []
    for topic in group.topics:
        known = context.services.image.topics_by_id.get(topic.topic_id)
        if known is None:
            indexes = topic.partition_indexes
            partitions = [no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
            unknown.append(
                OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)
            )
        else:
            topic.name = known.name
            named.append(topic)
    group.topics = named
    return unknown


def _with_ids(
    context: RequestContext,
    fetched: OffsetFetchResponseGroup,
    unknown: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    """Omits offsets of deleted topics, which have no id."""
    topics = []
    for topic in fetched.topics:
        known = context.services.image.topics.get(topic.name)
        if known is not None:
            topic.topic_id = known.topic_id
            topics.append(topic)
    fetched.topics = topics if fetched.error_code else topics + unknown
    return fetched


def _single(
    context: RequestContext, request: OffsetFetchRequest, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    """The format before v8. v1 can carry errors only in partitions."""
    if group.error_code and context.api_version < ERROR_FIELD_SINCE:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        _partition_failed(index, group.error_code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or []
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _partition_failed(index: int, error_code: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index, committed_offset=-1, metadata="", error_code=error_code
    )
