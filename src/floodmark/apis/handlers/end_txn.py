"""EndTxn (key 26), versions 0 to 5: commit or abort the open transaction.

Responds once the outcome is stored. From then on, the coordinator applies it to every partition,
whatever happens to the client.

- v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible
- v4 TRANSACTION_ABORTABLE
- v5 transaction version 2 (KIP-890): returns the id and epoch of the next transaction
"""

from __future__ import annotations

from floodmark.apis.access import Access, transactional_id
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.shard import Identity
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

KNOWS_FENCED_SINCE = 2
BUMPS_EPOCHS_SINCE = 5

ACCESS = Access(needs=(transactional_id(),))


def handle(context: RequestContext, request: EndTxnRequest) -> Deferred[EndTxnResponse]:
    version = context.api_version

    def respond(identity: Identity) -> EndTxnResponse:
        error_code = identity.error_code
        if error_code is ErrorCode.PRODUCER_FENCED and version < KNOWS_FENCED_SINCE:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(
            error_code=error_code,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        )

    outcome = context.services.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        2 if version >= BUMPS_EPOCHS_SINCE else 0,
        committed=request.committed,
    )
    return after(outcome, respond)
