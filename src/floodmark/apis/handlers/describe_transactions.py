"""DescribeTransactions (key 65), version 0: state, producer and partitions of transactional ids."""

from __future__ import annotations

from floodmark.apis.access import Access, Each, Hides, itself
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

ACCESS = Access(
    each=(
        Each(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TRANSACTIONAL_ID,
            items="transactional_ids",
            answers="transaction_states",
            name=itself,
        ),
    ),
    answer=(
        Hides(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TOPIC,
            items="topics",
            name="topic",
            within="transaction_states",
        ),
    ),
)


def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(context, transactional_id) for transactional_id in request.transactional_ids
        ]
    )


def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    error_code, transaction = context.services.transactions.describe(transactional_id)
    if transaction is None:
        return TransactionState(error_code=error_code, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=error_code,
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )
