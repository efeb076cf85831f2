"""TxnOffsetCommit (key 28), versions 0 to 5: commit offsets as part of a transaction.

The offsets become visible when the transaction commits. The group coordinator keeps them; the
transaction must contain its partition of `__consumer_offsets`, which is verified first.

- v2 leader epochs; v3 flexible, and the member on whose behalf: a fenced member commits nothing
- v4 TRANSACTION_ABORTABLE
- v5 transaction version 2 (KIP-890): adds the group to the transaction by itself
"""

from __future__ import annotations

from collections.abc import Awaitable

from floodmark.apis.context import RequestContext
from floodmark.apis.later import Later, later
from floodmark.coordinators.groups.offset_requests import refuse_transactional
from floodmark.coordinators.transactions.transaction import Outcomes
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

KNOWS_LOADING_SINCE = 2
KNOWS_ABORTABLE_SINCE = 4
ADDS_OFFSETS_SINCE = 5


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> Later[TxnOffsetCommitResponse]:
    services = context.services
    unknown = _take_unknown(context, request)
    if not request.topics:
        return _merged(TxnOffsetCommitResponse(), unknown)
    if not request.group_id:
        # Before the transaction is touched: it must not hold the offsets of no group.
        return _merged(refuse_transactional(request, ErrorCode.INVALID_GROUP_ID), unknown)
    verified = services.transactions.verify_or_add(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(CONSUMER_OFFSETS_TOPIC, services.groups.partition_of(request.group_id))}),
        add=context.api_version >= ADDS_OFFSETS_SINCE,
    )
    if isinstance(verified, dict):
        return _commit(context, request, unknown, verified)
    return _commit_when_verified(context, request, unknown, verified)


async def _commit_when_verified(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    unknown: list[TxnOffsetCommitResponseTopic],
    verified: Awaitable[Outcomes],
) -> TxnOffsetCommitResponse:
    response = _commit(context, request, unknown, await verified)
    return response if isinstance(response, TxnOffsetCommitResponse) else await response


def _commit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    unknown: list[TxnOffsetCommitResponseTopic],
    refusals: Outcomes,
) -> Later[TxnOffsetCommitResponse]:
    def respond(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        if context.api_version < KNOWS_LOADING_SINCE:
            _hide_loading(response)
        return _merged(response, unknown)

    for error_code in refusals.values():
        return respond(refuse_transactional(request, _for_group(error_code, context.api_version)))
    return later(context.services.groups.commit_transactional_offsets(request), respond)


def _take_unknown(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Takes the partitions that do not exist out of the request; they have their answer now."""
    image = context.services.image
    unknown = []
    kept = []
    for topic in request.topics:
        missing: list[TxnOffsetCommitRequestPartition] = []
        present: list[TxnOffsetCommitRequestPartition] = []
        for p in topic.partitions:
            is_known = image.partition(topic.name, p.partition_index) is not None
            (present if is_known else missing).append(p)
        if missing:
            unknown.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=p.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for p in missing
                    ],
                )
            )
        if present:
            kept.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=present))
    request.topics = kept
    return unknown


def _merged(
    response: TxnOffsetCommitResponse, unknown: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    """One entry per topic, also when only some of its partitions exist."""
    by_name: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in [*response.topics, *unknown]:
        entry = by_name.setdefault(topic.name, topic)
        if entry is not topic:
            entry.partitions += topic.partitions
    response.topics = list(by_name.values())
    return response


def _for_group(error_code: ErrorCode, api_version: int) -> ErrorCode:
    """The client believes that it talks to the group coordinator: it must not go and look for
    another one because the transaction's coordinator is busy."""
    if error_code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error_code is ErrorCode.TRANSACTION_ABORTABLE and api_version < KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error_code


def _hide_loading(response: TxnOffsetCommitResponse) -> None:
    """Producers before 2.0 break on COORDINATOR_LOAD_IN_PROGRESS here (KAFKA-7296)."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
