"""DescribeTopicPartitions (key 75), version 0: topics page by page, for large clusters.

Topics come in the order of their names; a cursor says where the next page begins (KIP-966).
"""

from __future__ import annotations

from floodmark.apis.authorized_operations import ALL_ON_TOPIC
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import TopicImage
from floodmark.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

MAX_PARTITIONS_PER_PAGE = 2000
"""Kafka's `max.request.partition.size.limit`."""


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = context.services.image
    fetch_all = not request.topics
    names = sorted({t.name for t in request.topics} if request.topics else image.topics)
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = request.cursor.partition_index
    left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS_PER_PAGE)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            if not fetch_all:
                response.topics.append(
                    DescribeTopicPartitionsResponseTopic(
                        error_code=context.services.why_unknown(name), name=name
                    )
                )
            continue
        end = min(len(topic.partitions), first_partition + left)
        response.topics.append(_topic(context, topic, range(first_partition, end)))
        left -= end - first_partition
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
        first_partition = 0
        if left == 0:
            following = [n for n in names if n > name]
            if following:
                response.next_cursor = ResponseCursor(topic_name=following[0], partition_index=0)
            break
    return response


def _topic(
    context: RequestContext, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index]
        reachability = context.services.reachability(topic, index)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=reachability.error_code,
                partition_index=index,
                leader_id=reachability.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.eligible_leader_replicas),
                last_known_elr=[],
                offline_replicas=reachability.offline_replicas,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=ALL_ON_TOPIC,
    )
