"""Metadata (key 3), versions 0 to 13: brokers, and topics with their partitions and leaders.

Any broker answers for the whole cluster (SPEC C4). A missing topic is created if both the client
and `auto.create.topics.enable` allow it. As in Kafka, the request that caused this still gets
"unknown topic": clients ask again, and one that checks whether a topic is gone must not find one
that its own request created.

- v0 no topics means all; since v1 null means all; v4 the client may forbid creation
- v5 offline replicas; v7 leader epochs; v8 authorized operations; v9 flexible
- v10 topic ids; v12 topics by id; v13 a top-level error
"""

from __future__ import annotations

from uuid import UUID

from floodmark.apis.access import Access, Tells, each_topic
from floodmark.apis.authorized_operations import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_REQUESTED
from floodmark.apis.authorizer import Guard, Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.controller_outcomes import decided
from floodmark.apis.topic_descriptions import (
    HIDES_FROM_ALL,
    TELLS_OPERATIONS,
    described_partitions,
)
from floodmark.controller.topics import CreatedTopic, NewTopic
from floodmark.coordinators.ports import CoordinatorError, CoordinatorLog
from floodmark.metadata.image import (
    CONSUMER_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    TopicImage,
)
from floodmark.network.request_channel import Waiting
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.schema import ZERO_UUID

BY_ID_SINCE = 12


def _hide_name(
    context: RequestContext,
    guard: Guard,
    topic: MetadataRequestTopic,
    refusal: MetadataResponseTopic,
) -> None:
    """A topic id is not secret, but its name is. Names cannot be null before version 12."""
    if topic.topic_id != ZERO_UUID:
        refusal.name = None if context.api_version >= BY_ID_SINCE else ""


def _is_to_create(
    context: RequestContext, request: MetadataRequest, topic: MetadataRequestTopic
) -> bool:
    services = context.services
    return (
        topic.name is not None
        and topic.topic_id == ZERO_UUID
        and topic.name not in services.image.topics
        and request.allow_auto_topic_creation
        and services.config.get_bool("auto.create.topics.enable")
    )


ACCESS = Access(
    each=(
        each_topic(
            Operation.DESCRIBE, amend=_hide_name, handles_none=True, refuses_unknown_ids=True
        ),
        each_topic(
            Operation.CREATE,
            or_cluster=Operation.CREATE,
            applies=_is_to_create,
            handles_none=True,
        ),
    ),
    answer=(
        TELLS_OPERATIONS,
        Tells(kind=ResourceKind.CLUSTER, field="cluster_authorized_operations"),
    ),
    inside=(HIDES_FROM_ALL,),
)


def handle(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Waiting[MetadataResponse]:
    if context.api_version < BY_ID_SINCE and not _has_names_only(request):
        return _refuse(request, ErrorCode.INVALID_REQUEST)
    if request.topics:
        request.topics = _distinct(request.topics)
    missing = _to_create(context, request)
    if missing:
        return Waiting(_create_and_answer(context, request, missing))
    return _answer(context, request, {})


def _has_names_only(request: MetadataRequest) -> bool:
    return all(t.name is not None and t.topic_id == ZERO_UUID for t in request.topics or ())


def _refuse(request: MetadataRequest, error_code: ErrorCode) -> MetadataResponse:
    """As in Kafka, one invalid topic fails the whole request."""
    return MetadataResponse(
        error_code=error_code,
        topics=[
            MetadataResponseTopic(
                error_code=error_code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ],
    )


def _distinct(topics: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Each topic once. If ids are given, only they count and names are ignored."""
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id != ZERO_UUID}
    if by_id:
        return list(by_id.values())
    return list({topic.name: topic for topic in topics}.values())


def _asks_for_all(context: RequestContext, request: MetadataRequest) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _to_create(context: RequestContext, request: MetadataRequest) -> list[str]:
    return [
        topic.name
        for topic in request.topics or ()
        if topic.name is not None and _is_to_create(context, request, topic)
    ]


async def _create_and_answer(
    context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    errors: dict[str, ErrorCode] = {}
    ordinary = []
    for name in missing:
        log = _coordinator_log(context, name)
        if log is None:
            ordinary.append(name)
        else:
            errors[name] = await _create_internal(log)
    created = await decided(
        context.services.controller_client.create_topics([NewTopic(name) for name in ordinary]),
        lambda code, text: [CreatedTopic(name, code, text) for name in ordinary],
    )
    for topic in created:
        # Another client was faster: the topic exists, which is all we need.
        if topic.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            errors[topic.name] = topic.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _answer(context, request, errors)


def _coordinator_log(context: RequestContext, name: str) -> CoordinatorLog | None:
    """A coordinator's topic has its own settings, whichever client asks first."""
    if name == CONSUMER_OFFSETS_TOPIC:
        return context.services.groups.log
    if name == TRANSACTION_STATE_TOPIC:
        return context.services.transactions.log
    return None


async def _create_internal(log: CoordinatorLog) -> ErrorCode:
    try:
        await log.ensure_topic()
    except CoordinatorError as problem:
        return problem.error_code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer(
    context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = context.services.image
    operations = ALL_ON_TOPIC if request.include_topic_authorized_operations else NOT_REQUESTED
    topics: list[MetadataResponseTopic]
    if _asks_for_all(context, request):
        topics = [_known(context, topic, operations) for topic in context.visible_topics.values()]
    else:
        topics = [
            _asked_for(context, topic.name, topic.topic_id, operations, errors)
            for topic in request.topics or []
        ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in context.services.broker_endpoints(
                context.peer.listener_name, with_departed=context.is_librdkafka
            )
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            ALL_ON_CLUSTER if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def _asked_for(
    context: RequestContext,
    name: str | None,
    topic_id: UUID,
    operations: int,
    errors: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    image = context.services.image
    if topic_id != ZERO_UUID:
        # Only the id counts: Java leaves the name empty where others send null.
        by_id = image.topics_by_id.get(topic_id)
        if by_id is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )
        return _known(context, by_id, operations)
    topic, error = image.topics.get(name or ""), errors.get(name or "")
    if topic is not None and error is None:
        return _known(context, topic, operations)
    if error is None:
        error = context.services.why_unknown(name or "")
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _known(context: RequestContext, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=described_partitions(
            context, topic, range(len(topic.partitions)), MetadataResponsePartition
        ),
        topic_authorized_operations=operations,
    )
