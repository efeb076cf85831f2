"""ControlledShutdown (key 7), versions 1 to 3: a broker hands over leadership before it stops.

As in Kafka 3.9. v2 broker epoch; v3 flexible.
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(
    context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    try:
        answer = await context.services.controller.controlled_shutdown(
            request.broker_id, request.broker_epoch
        )
    except ControllerUnavailable as problem:
        return ControlledShutdownResponse(error_code=problem.error_code)
    return ControlledShutdownResponse(
        error_code=answer.error_code,
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=index)
            for topic, index in answer.remaining
        ],
    )
