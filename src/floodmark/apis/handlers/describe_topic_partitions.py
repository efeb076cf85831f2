"""DescribeTopicPartitions (key 75), version 0: topics page by page, for large clusters.

Topics come in the order of their names; a cursor says where the next page begins (KIP-966).
"""

from __future__ import annotations

from floodmark.apis.access import Access, Tells, each_topic
from floodmark.apis.authorized_operations import ALL_ON_TOPIC
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import TopicImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)

MAX_PARTITIONS_PER_PAGE = 2000
"""Kafka's `max.request.partition.size.limit`."""

ACCESS = Access(
    each=(each_topic(Operation.DESCRIBE),),
    answer=(
        Tells(
            kind=ResourceKind.TOPIC,
            field="topic_authorized_operations",
            items="topics",
            name="name",
        ),
    ),
    inside=("hides each TOPIC without DESCRIBE from a list of all",),
)


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    asked = sorted({topic.name for topic in request.topics})
    if cursor is not None and not _fits(cursor, asked):
        return _refuse(asked, ErrorCode.INVALID_REQUEST)
    names = asked or sorted(context.visible_topics)
    first_partition = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    limit = min(max(request.response_partition_limit, 1), MAX_PARTITIONS_PER_PAGE)
    return _page(context, names, first_partition, limit)


def _fits(cursor: RequestCursor, asked: list[str]) -> bool:
    """A cursor points at a partition, of one of the topics where topics were named."""
    return cursor.partition_index >= 0 and (not asked or cursor.topic_name in asked)


def _refuse(names: list[str], error: ErrorCode) -> DescribeTopicPartitionsResponse:
    topics = [DescribeTopicPartitionsResponseTopic(error_code=error, name=name) for name in names]
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    context: RequestContext, names: list[str], first_partition: int, limit: int
) -> DescribeTopicPartitionsResponse:
    """At most `limit` partitions of these topics, beginning inside the first of them."""
    response = DescribeTopicPartitionsResponse()
    left = limit
    for name in names:
        if left == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = context.services.image.topics.get(name)
        if topic is None:
            response.topics += _refuse([name], context.services.why_unknown(name)).topics
            first_partition = 0
            continue
        indexes = range(len(topic.partitions))[first_partition : first_partition + left]
        response.topics.append(_topic(context, topic, indexes))
        left -= len(indexes)
        if indexes.stop < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=indexes.stop)
            break
        first_partition = 0
    return response


def _topic(
    context: RequestContext, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    wanted = topic.partitions[indexes.start : indexes.stop]
    reachability = context.services.reachability(topic, indexes)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=error_code,
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.eligible_leader_replicas),
                last_known_elr=[],
                offline_replicas=offline,
            )
            for index, partition, (error_code, leader_id, offline) in zip(
                indexes, wanted, reachability, strict=True
            )
        ],
        topic_authorized_operations=ALL_ON_TOPIC,
    )
