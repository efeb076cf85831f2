"""ListPartitionReassignments (key 46), version 0: the reassignments in progress.

Kafka's TopicCommand uses it to describe a topic. Omits partitions that do not exist or are not
moving.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import MetadataImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

ACCESS = cluster(Operation.DESCRIBE)


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not context.services.controller.is_active:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    image = context.services.image
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = ((name, range(len(topic.partitions))) for name, topic in image.topics.items())
    else:
        wanted = ((topic.name, topic.partition_indexes) for topic in request.topics)
    moving = ((name, list(_moving(image, name, indexes))) for name, indexes in wanted)
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions)
            for name, partitions in moving
            if partitions
        ]
    )


def _moving(
    image: MetadataImage, name: str, indexes: Iterable[int]
) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = image.partition(name, index)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
