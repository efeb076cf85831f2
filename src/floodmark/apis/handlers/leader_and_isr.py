"""LeaderAndIsr (key 4), versions 5 to 7: the controller announces leaders of a broker's partitions.

- v5 topic ids; v6 leader recovery state; v7 KRaft migrations (not served)
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    error_code = await context.services.control.leader_and_isr(request)
    if error_code is not ErrorCode.NONE:
        return LeaderAndIsrResponse(error_code=error_code)
    replicas = context.services.replicas
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=partition.partition_index,
                        error_code=_error(replicas, topic.topic_name, partition.partition_index),
                    )
                    for partition in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
    )


def _error(replicas: ReplicaManager, topic: str, partition: int) -> ErrorCode:
    """The controller elects another leader for a partition that cannot open here."""
    is_offline = replicas.is_offline((topic, partition))
    return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NONE
