"""TxnOffsetCommit (key 28), versions 0 to 5: commit offsets as part of a transaction.

The offsets become visible when the transaction commits. The group coordinator stores them. First it
verifies that the transaction includes the group's partition of `__consumer_offsets`.

- v2 leader epochs; v3 flexible, and the group member, so that a fenced member cannot commit
- v4 TRANSACTION_ABORTABLE
- v5 transaction version 2 (KIP-890): adds the group to the transaction implicitly
"""

from __future__ import annotations

from collections.abc import Awaitable

from floodmark.apis.access import Access, each_topic, group, transactional_id
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.groups.offset_requests import refuse_transactional
from floodmark.coordinators.ports import CoordinatorError, GuardedAppend
from floodmark.coordinators.transactions.transaction import Outcomes
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.network.request_channel import Waiting
from floodmark.promise import Promise
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

ACCESS = Access(
    needs=(transactional_id(), group(Operation.READ)), each=(each_topic(Operation.READ),)
)


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> Deferred[TxnOffsetCommitResponse]:
    unknown = _take_unknown(context, request)
    if not request.topics:
        return _merged(TxnOffsetCommitResponse(), unknown)
    if not request.group_id:
        # Before touching the transaction, which must not include offsets without a group.
        return _merged(refuse_transactional(request, ErrorCode.INVALID_GROUP_ID), unknown)
    return _Commit(context, request, unknown).run()


class _Commit:
    """Verifies, then appends with the guard taken before verification.

    The transaction may have ended while the response was pending."""

    def __init__(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        unknown: list[TxnOffsetCommitResponseTopic],
    ) -> None:
        self._services = context.services
        self._api_version = context.api_version
        self._request = request
        self._unknown = unknown
        self._start()

    def run(self) -> Deferred[TxnOffsetCommitResponse]:
        request, services = self._request, self._services
        if isinstance(self._append, ErrorCode):
            return self._refuse(self._append)
        verified = services.transactions.verify_or_add(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({(CONSUMER_OFFSETS_TOPIC, services.groups.partition_of(request.group_id))}),
            add=self._api_version >= ADDS_OFFSETS_SINCE,
            before_retry=self._start,
        )
        if isinstance(verified, dict):
            return self._commit(verified)
        return Waiting(self._wait(verified))

    def _start(self) -> None:
        self._append: GuardedAppend | ErrorCode
        try:
            self._append = self._services.groups.start_verification(
                self._request, bumps_epoch=self._api_version >= ADDS_OFFSETS_SINCE
            )
        except CoordinatorError as error:
            self._append = client_code(error)

    async def _wait(self, verified: Awaitable[Outcomes]) -> TxnOffsetCommitResponse:
        response = self._commit(await verified)
        return response if isinstance(response, TxnOffsetCommitResponse) else await response

    def _commit(
        self, refusals: Outcomes
    ) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
        for error_code in refusals.values():
            return self._refuse(_for_group(error_code, self._api_version))
        if isinstance(self._append, ErrorCode):
            return self._refuse(self._append)
        groups = self._services.groups
        return after(
            groups.commit_transactional_offsets(self._request, self._append), self._respond
        )

    def _refuse(self, error_code: ErrorCode) -> TxnOffsetCommitResponse:
        return self._respond(refuse_transactional(self._request, error_code))

    def _respond(self, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        if self._api_version < KNOWS_LOADING_SINCE:
            _hide_loading(response)
        return _merged(response, self._unknown)


def _take_unknown(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Removes missing partitions from the request and returns their results."""
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
    """One entry per topic, even if only some of its partitions exist."""
    by_name: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in [*response.topics, *unknown]:
        entry = by_name.setdefault(topic.name, topic)
        if entry is not topic:
            entry.partitions += topic.partitions
    response.topics = list(by_name.values())
    return response


def _for_group(error_code: ErrorCode, api_version: int) -> ErrorCode:
    """Maps errors of the transaction coordinator.

    The client talks to the group coordinator, and must not look for another one because the
    transaction coordinator is busy."""
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
