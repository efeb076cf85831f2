"""AddPartitionsToTxn (key 24), versions 0 to 5: add partitions to a transaction.

Adds all partitions of a transaction or none: one that does not exist, or belongs to a coordinator's
topic, gets its own error, and the others get OPERATION_NOT_ATTEMPTED.

- v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v3 flexible
- v4 many transactions at once, sent by brokers: to add partitions for a producer, or only to verify
  that they were added (KIP-890)
- v5 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from collections.abc import Awaitable

from floodmark.apis.access import Access, Needs, each_topic, transactional_id
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.transaction import Outcomes
from floodmark.metadata.image import INTERNAL_TOPICS
from floodmark.network.request_channel import Waiting
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

KNOWS_FENCED_SINCE = 2
FROM_BROKERS_SINCE = 4

ACCESS = Access(
    needs=(
        transactional_id("v3_and_below_transactional_id", versions="0-3"),
        Needs(operation=Operation.CLUSTER_ACTION, versions="4+"),
    ),
    each=(
        each_topic(
            Operation.WRITE,
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            others=ErrorCode.OPERATION_NOT_ATTEMPTED,
            versions="0-3",
        ),
    ),
)


def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Deferred[AddPartitionsToTxnResponse]:
    if context.api_version < FROM_BROKERS_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return after(
            _run(context, transaction),
            lambda outcome: AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=_topic_results(transaction, outcome)
            ),
        )
    outcomes = [_run(context, transaction) for transaction in request.transactions]
    done = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    if len(done) == len(outcomes):
        return _batched_response(request, done)
    return Waiting(_respond_when_all_are_done(request, outcomes))


def _run(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Outcomes | Awaitable[Outcomes]:
    transactions = context.services.transactions
    image = context.services.image
    version = context.api_version
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused: Outcomes = {}
    for key in partitions:
        if version < FROM_BROKERS_SINCE and key[0] in INTERNAL_TOPICS:
            # Offsets use AddOffsetsToTxn. Clients may not touch coordinator topics otherwise.
            refused[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(*key) is None:
            refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return transactions.verify_partitions(transaction.transactional_id, producer, partitions)

    def spread(error_code: ErrorCode) -> Outcomes:
        if error_code is ErrorCode.PRODUCER_FENCED and version < KNOWS_FENCED_SINCE:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        return dict.fromkeys(partitions, error_code)

    added = transactions.add_partitions(
        transaction.transactional_id,
        producer,
        frozenset(partitions),
        2 if version >= FROM_BROKERS_SINCE else 0,
    )
    return after(added, spread)


async def _respond_when_all_are_done(
    request: AddPartitionsToTxnRequest, outcomes: list[Outcomes | Awaitable[Outcomes]]
) -> AddPartitionsToTxnResponse:
    done = [outcome if isinstance(outcome, dict) else await outcome for outcome in outcomes]
    return _batched_response(request, done)


def _batched_response(
    request: AddPartitionsToTxnRequest, outcomes: list[Outcomes]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(transaction, outcome),
            )
            for transaction, outcome in zip(request.transactions, outcomes, strict=True)
        ]
    )


def _topic_results(
    transaction: AddPartitionsToTxnTransaction, outcome: Outcomes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=outcome[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]
