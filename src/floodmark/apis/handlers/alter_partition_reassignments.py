"""AlterPartitionReassignments (key 45), versions 0 to 1: move partitions to other brokers.

- v1 the client may forbid changes to the replication factor (KIP-860)
"""

from __future__ import annotations

from collections import defaultdict

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.reassignment import Reassignment
from floodmark.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

ACCESS = cluster(Operation.ALTER)


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        Reassignment(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        answers = await context.services.controller.reassign_partitions(
            wanted, allow_factor_change=request.allow_replication_factor_change
        )
    except ControllerUnavailable as problem:
        return AlterPartitionReassignmentsResponse(
            error_code=problem.error_code,
            error_message=str(problem),
            allow_replication_factor_change=request.allow_replication_factor_change,
        )
    by_topic: dict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
    for answer in answers:
        by_topic[answer.topic].append(
            ReassignablePartitionResponse(
                partition_index=answer.partition,
                error_code=answer.error_code,
                error_message=answer.message,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
