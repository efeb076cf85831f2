"""InitProducerId (key 22), versions 0 to 5: an id and an epoch for a producer.

Without a transactional id, the id is new and the epoch 0. With one, the coordinator fences its
previous producer. If that one left a transaction open, the coordinator aborts it first and responds
CONCURRENT_TRANSACTIONS until that is done.

- v2 flexible; v3 a recovering producer states its previous id and epoch (KIP-360)
- v4 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v5 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from collections.abc import Coroutine

from floodmark.apis.access import Access, Needs, transactional_id
from floodmark.apis.authorizer import THE_CLUSTER, Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.shard import Identity
from floodmark.network.request_channel import Waiting
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

KNOWS_FENCED_SINCE = 4
NONE_GIVEN = -1

ACCESS = Access(
    needs=(
        transactional_id(),
        Needs(
            operation=Operation.IDEMPOTENT_WRITE,
            names=lambda context, request: (
                () if request.transactional_id is not None else (THE_CLUSTER.name,)
            ),
            or_any=(Operation.WRITE, ResourceKind.TOPIC),
        ),
    )
)


def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> Deferred[InitProducerIdResponse]:
    transactions = context.services.transactions
    expected = None
    if request.producer_id != NONE_GIVEN or request.producer_epoch != NONE_GIVEN:
        if NONE_GIVEN in (request.producer_id, request.producer_epoch):
            return InitProducerIdResponse(
                error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NONE_GIVEN
            )
        expected = Producer(request.producer_id, request.producer_epoch)

    def respond(identity: Identity) -> InitProducerIdResponse:
        error_code = identity.error_code
        if error_code is ErrorCode.PRODUCER_FENCED and context.api_version < KNOWS_FENCED_SINCE:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(
            error_code=error_code,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        )

    if request.transactional_id is None:
        outcome = transactions.new_producer_id()
    else:
        outcome = transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    # It waits for the controller if the broker has no producer ids left.
    return after(Waiting(outcome) if isinstance(outcome, Coroutine) else outcome, respond)
