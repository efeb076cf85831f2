"""DescribeTopicPartitions (key 75), version 0: topics page by page, for large clusters.

Topics are sorted by name; a cursor says where the next page starts (KIP-966). Only the controller
knows which replicas are eligible to lead; other brokers ask it if there can be any.
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorized_operations import ALL_ON_TOPIC
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.topic_descriptions import (
    HIDES_FROM_ALL,
    TELLS_OPERATIONS,
    described_partitions,
)
from floodmark.controller.decision import ControllerUnavailable
from floodmark.metadata.image import TopicImage
from floodmark.network.request_channel import Waiting
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
    TopicRequest,
)

MAX_PARTITIONS_PER_PAGE = 2000
"""Kafka's `max.request.partition.size.limit`."""

ACCESS = Access(
    each=(each_topic(Operation.DESCRIBE),),
    answer=(TELLS_OPERATIONS,),
    inside=(HIDES_FROM_ALL,),
)


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Waiting[DescribeTopicPartitionsResponse]:
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
    page = _page(context, names, first_partition, limit)
    incomplete = [] if context.services.controller.is_active else _out_of_sync(page)
    return Waiting(_with_eligible(context, page, incomplete)) if incomplete else page


def _out_of_sync(page: DescribeTopicPartitionsResponse) -> list[str]:
    """Topics with replicas that are not in sync. No other topics can have eligible replicas."""
    return [
        topic.name
        for topic in page.topics
        if topic.name is not None
        and any(len(one.isr_nodes) < len(one.replica_nodes) for one in topic.partitions)
    ]


async def _with_eligible(
    context: RequestContext, page: DescribeTopicPartitionsResponse, names: list[str]
) -> DescribeTopicPartitionsResponse:
    """Adds the eligible replicas that the controller knows. There are none if Apache Kafka is the
    controller, or if it cannot be reached."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=MAX_PARTITIONS_PER_PAGE,
        cursor=RequestCursor(topic_name=names[0], partition_index=_first_of(page, names[0])),
    )
    try:
        told: DescribeTopicPartitionsResponse = await context.services.controller_client.request(
            request
        )
    except ControllerUnavailable:
        return page
    eligible = {
        (topic.name, one.partition_index): one.eligible_leader_replicas
        for topic in told.topics
        for one in topic.partitions
    }
    for topic in page.topics:
        for one in topic.partitions:
            one.eligible_leader_replicas = eligible.get((topic.name, one.partition_index), [])
    return page


def _first_of(page: DescribeTopicPartitionsResponse, name: str) -> int:
    return next(t.partitions[0].partition_index for t in page.topics if t.name == name)


def _fits(cursor: RequestCursor, asked: list[str]) -> bool:
    """A cursor points at a partition, of a requested topic if topics were named."""
    return cursor.partition_index >= 0 and (not asked or cursor.topic_name in asked)


def _refuse(names: list[str], error: ErrorCode) -> DescribeTopicPartitionsResponse:
    topics = [DescribeTopicPartitionsResponseTopic(error_code=error, name=name) for name in names]
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    context: RequestContext, names: list[str], first_partition: int, limit: int
) -> DescribeTopicPartitionsResponse:
    """At most `limit` partitions of these topics, starting inside the first."""
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
    partitions = described_partitions(
        context, topic, indexes, DescribeTopicPartitionsResponsePartition
    )
    for told in partitions:
        known = topic.partitions[told.partition_index]
        told.eligible_leader_replicas = list(known.eligible_leader_replicas)
        told.last_known_elr = []
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=ALL_ON_TOPIC,
    )
