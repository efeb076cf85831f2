"""AlterPartition (key 56), versions 2 to 3: a leader asks the controller for a new ISR (KIP-497).

- v2 topic ids; v3 broker epochs of the members (KIP-903)
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.isr_messages import proposals_of, response_of
from floodmark.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    try:
        answer = await context.services.controller.alter_partitions(
            request.broker_id, request.broker_epoch, proposals_of(request)
        )
    except ControllerUnavailable as problem:
        return AlterPartitionResponse(error_code=problem.error_code)
    return response_of(answer)
