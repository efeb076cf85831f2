"""AddOffsetsToTxn (key 25), versions 0 to 4: add a group's offsets to a transaction.

It adds the group's partition of `__consumer_offsets`. Producers of transaction version 2 do not
send it, because their TxnOffsetCommit does the same.

- v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible
- v4 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from floodmark.apis.access import Access, group, transactional_id
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.shard import Producer
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

KNOWS_FENCED_SINCE = 2
FIRST_VERSION = 0

ACCESS = Access(needs=(transactional_id(), group(Operation.READ)))


def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> Deferred[AddOffsetsToTxnResponse]:
    services = context.services

    def respond(error_code: ErrorCode) -> AddOffsetsToTxnResponse:
        if error_code is ErrorCode.PRODUCER_FENCED and context.api_version < KNOWS_FENCED_SINCE:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=error_code)

    outcome = services.transactions.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset({(CONSUMER_OFFSETS_TOPIC, services.groups.partition_of(request.group_id))}),
        FIRST_VERSION,
    )
    return after(outcome, respond)
