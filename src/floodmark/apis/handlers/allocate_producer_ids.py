"""AllocateProducerIds (key 67), version 0: give a broker a block of producer ids (KIP-730)."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(
    context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    known = context.services.image.brokers.get(request.broker_id)
    if known is None or known.broker_epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    try:
        block = await context.services.controller.allocate_producer_ids(request.broker_id)
    except ControllerUnavailable as problem:
        return AllocateProducerIdsResponse(error_code=problem.error_code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
