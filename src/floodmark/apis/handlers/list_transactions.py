"""ListTransactions (key 66), versions 0 to 2: the transactions this broker coordinates.

- v1 filter by duration; v2 filter ids by pattern (KIP-1152)
"""

from __future__ import annotations

from floodmark.apis.access import Access, Hides
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.transactions.listing import Listing, TransactionFilter
from floodmark.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

ACCESS = Access(
    answer=(
        Hides(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TRANSACTIONAL_ID,
            items="transaction_states",
            name="transactional_id",
        ),
    )
)


def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> Deferred[ListTransactionsResponse]:
    wanted = TransactionFilter(
        frozenset(request.producer_id_filters),
        tuple(request.state_filters),
        request.duration_filter,
    )
    transactions, pattern = context.services.transactions, request.transactional_id_pattern
    if pattern:
        return after(transactions.search_by_pattern(pattern, wanted), _response)
    return _response(transactions.search(wanted))


def _response(listing: Listing) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=listing.error_code,
        unknown_state_filters=listing.unknown_state_labels,
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transaction in listing.transactions
        ],
    )
