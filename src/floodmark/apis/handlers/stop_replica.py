"""StopReplica (key 5), versions 3 to 4: the controller removes replicas from a broker.

- v3 leader epoch and deletion per partition; v4 KRaft migrations (not served)
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    error_code = await context.services.control.stop_replica(request)
    if error_code is not ErrorCode.NONE:
        return StopReplicaResponse(error_code=error_code)
    return StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=topic.topic_name, partition_index=partition.partition_index
            )
            for topic in request.topic_states
            for partition in topic.partition_states
        ]
    )
