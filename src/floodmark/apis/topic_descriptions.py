"""Shared code of Metadata and DescribeTopicPartitions: a topic as clients see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from floodmark.apis.access import Tells
from floodmark.apis.authorizer import ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import TopicImage

TELLS_OPERATIONS = Tells(
    kind=ResourceKind.TOPIC, field="topic_authorized_operations", items="topics", name="name"
)
HIDES_FROM_ALL = "hides each TOPIC without DESCRIBE from a list of all"

P = TypeVar("P")


def described_partitions(
    context: RequestContext, topic: TopicImage, indexes: range, response_class: Callable[..., P]
) -> list[P]:
    """Describes these partitions, each in the API's own class."""
    return [
        response_class(
            error_code=error_code,
            partition_index=index,
            leader_id=leader_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=offline,
        )
        for index, partition, (error_code, leader_id, offline) in zip(
            indexes,
            topic.partitions[indexes.start : indexes.stop],
            context.services.reachability(topic, indexes),
            strict=True,
        )
    ]
