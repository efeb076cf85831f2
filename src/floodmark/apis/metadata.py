"""Metadata (key 3), versions 0 to 13: brokers, and topics with their partitions and leaders.

Any broker answers for the whole cluster (SPEC C4). A topic that does not exist is created when both
the client and `auto.create.topics.enable` allow it. The request that caused this is still told that
there is no such topic, as by Kafka: clients ask again, and one that looks whether a topic is gone
must not find the one that its own question made.

- v0 no topics means all; from v1 on null means all; v4 the client may forbid creation
- v5 offline replicas; v7 leader epochs; v8 authorized operations; v9 flexible
- v10 topic ids; v12 topics asked for by id; v13 an error for the whole answer
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from floodmark.apis.authorized_operations import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_REQUESTED
from floodmark.apis.context import RequestContext
from floodmark.apis.decisions import decided
from floodmark.controller.topics import CreatedTopic, NewTopic
from floodmark.metadata.image import TopicImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.schema import ZERO_UUID

BY_ID_SINCE = 12


def handle(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    missing = _to_create(context, request)
    if missing:
        return _create_and_answer(context, request, missing)
    return _answer(context, request, {})


def _asks_for_all(context: RequestContext, request: MetadataRequest) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _to_create(context: RequestContext, request: MetadataRequest) -> list[str]:
    if not request.allow_auto_topic_creation or not request.topics:
        return []
    if not context.services.config.get_bool("auto.create.topics.enable"):
        return []
    topics = context.services.image.topics
    return [
        topic.name
        for topic in request.topics
        if topic.name is not None and topic.topic_id == ZERO_UUID and topic.name not in topics
    ]


async def _create_and_answer(
    context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    created = await decided(
        context.services.controller.create_topics([NewTopic(name) for name in missing]),
        lambda code, text: [CreatedTopic(name, code, text) for name in missing],
    )
    errors: dict[str, ErrorCode] = {
        topic.name: topic.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in created
        # Another client was faster: the topic is there, which is all that was wanted.
        if topic.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS
    }
    return _answer(context, request, errors)


def _answer(
    context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = context.services.image
    operations = ALL_ON_TOPIC if request.include_topic_authorized_operations else NOT_REQUESTED
    topics: list[MetadataResponseTopic]
    if _asks_for_all(context, request):
        topics = [_known(context, topic, operations) for topic in image.topics.values()]
    else:
        topics = [
            _asked_for(context, topic.name, topic.topic_id, operations, errors)
            for topic in request.topics or []
        ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in context.services.broker_endpoints(
                context.peer.listener_name
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
    if context.api_version < BY_ID_SINCE and (name is None or topic_id != ZERO_UUID):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name or "")
    if topic_id != ZERO_UUID:
        # The id alone counts: Java leaves the name empty where others send null.
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
    return MetadataResponseTopic(error_code=error, name=name)


def _known(context: RequestContext, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    partitions = []
    for index, partition in enumerate(topic.partitions):
        reachability = context.services.reachability(topic, index)
        partitions.append(
            MetadataResponsePartition(
                error_code=reachability.error_code,
                partition_index=index,
                leader_id=reachability.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=reachability.offline_replicas,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )
