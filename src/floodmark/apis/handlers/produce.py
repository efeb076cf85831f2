"""Produce (key 0), versions 3 to 13: append a batch to each of several partitions.

acks=0 gets no response, acks=1 once the leader has it, acks=all once every in-sync replica has it.

- v3 record batches of magic 2, transactional id; v5 log start offset in the response
- v7 zstd; v8 the refused records, with a text
- v9 flexible; v10 the current leader in the response after NOT_LEADER_OR_FOLLOWER
- v11, v12 transactions of KIP-890; v13 topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeAlias

from floodmark.apis.access import Access, each_topic, transactional_id
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deep_validation import DeepValidations, validate_deeply
from floodmark.apis.transactional_produce import (
    Verified,
    is_closed,
    topic_name,
    verify_transaction,
)
from floodmark.network.request_channel import CloseConnection, Waiting
from floodmark.promise import Promise
from floodmark.records.batch import COMPRESSION_MASK, HEADER_BYTES, read_header
from floodmark.records.compression import Compression
from floodmark.replication.outcomes import AppendOutcome
from floodmark.vocabulary import TopicPartition
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import NO_ERROR, ErrorCode
from floodmark.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ZSTD_SINCE = 7
CURRENT_LEADER_SINCE = 10
VALID_ACKS = (-1, 0, 1)

Outcomes: TypeAlias = dict[TopicPartition, AppendOutcome]
Answer: TypeAlias = "ProduceResponse | Promise[ProduceResponse] | None"
LateAnswer: TypeAlias = "Answer | Waiting[ProduceResponse | None]"

ACCESS = Access(
    needs=(transactional_id(),),
    each=(
        each_topic(Operation.WRITE, "topic_data", "responses", text=None, refuses_unknown_ids=True),
    ),
    is_answered=lambda request: request.acks != 0,
)


def handle(
    context: RequestContext, request: ProduceRequest
) -> LateAnswer | Coroutine[Any, Any, LateAnswer]:
    """Validates the records, verifies the transaction, and appends.

    Both checks may take long. Nothing waits between the last of them and the append.
    """
    validations = validate_deeply(context, request)
    if not isinstance(validations, dict):
        return _append_when_validated(context, request, validations)
    return _append_validated(context, request, validations)


async def _append_when_validated(
    context: RequestContext, request: ProduceRequest, validating: Awaitable[DeepValidations]
) -> LateAnswer:
    return _append_validated(context, request, await validating)


def _append_validated(
    context: RequestContext, request: ProduceRequest, validations: DeepValidations
) -> LateAnswer:
    if request.transactional_id is None:
        return append(context, request, {}, validations)
    verified = verify_transaction(context, request)
    if isinstance(verified, Verified):
        return append(context, request, verified.refusals, validations, verified)
    return Waiting(_append_when_verified(context, request, verified, validations))


async def _append_when_verified(
    context: RequestContext,
    request: ProduceRequest,
    verification: Awaitable[Verified],
    validations: DeepValidations,
) -> ProduceResponse | None:
    """The records stay in place meanwhile: the connection is muted until the response.

    There must be no wait between the last check of the guards, which is part of the append, and
    the append itself: a marker could come in between.
    """
    verified = await verification
    answer = append(context, request, verified.refusals, validations, verified)
    return await answer if isinstance(answer, Promise) else answer


def append(
    context: RequestContext,
    request: ProduceRequest,
    decided: Outcomes,
    validations: DeepValidations,
    verified: Verified | None = None,
) -> Answer:
    """Appends to all partitions that do not have an outcome yet."""
    replicas = context.services.replicas
    acks = request.acks
    response = ProduceResponse(responses=[])
    pending: Outcomes = {}
    # Several for a partition that the request names twice: what fails for one fails for all.
    unsettled: list[tuple[TopicPartition, PartitionProduceResponse]] = []
    for topic in request.topic_data:
        name = topic_name(context, topic)
        answers: list[PartitionProduceResponse] = []
        for partition in topic.partition_data:
            if name is None:
                outcome = AppendOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
            elif context.api_version < ZSTD_SINCE and _is_zstd(partition.records):
                text = f"Produce v{context.api_version} does not support zstd, v{ZSTD_SINCE} does"
                outcome = AppendOutcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, error_message=text)
            elif acks not in VALID_ACKS:
                outcome = AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
            elif is_closed(context, name):
                text = f"Cannot append to internal topic {name}"
                outcome = AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=text)
            else:
                key = (name, partition.index)
                guard = None if verified is None else verified.guard_of(key)
                outcome = decided.get(key) or replicas.append(
                    key,
                    partition.records or b"",
                    acks,
                    guard,
                    validations.get(id(partition)) if validations else None,
                )
            answer = PartitionProduceResponse(
                index=partition.index,
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.log_append_time_ms,
                log_start_offset=outcome.log_start_offset,
            )
            answers.append(answer)
            if outcome.error_code is not NO_ERROR:
                _refuse(context, answer, name or "", outcome)
            elif outcome.is_pending:
                known = pending.get(key)
                if known is None or known.required_offset < outcome.required_offset:
                    pending[key] = outcome
                unsettled.append((key, answer))
        response.responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if acks == 0:
        _end_unanswered(context, response)
        return None
    if not pending:
        return response

    def settle(settled: Outcomes) -> ProduceResponse:
        for key, answer in unsettled:
            if settled[key].error_code is not NO_ERROR:
                _refuse(context, answer, key[0], settled[key])
        return response

    return replicas.acknowledged(pending, acks, request.timeout_ms).map(settle)


def _is_zstd(records: memoryview | bytes | None) -> bool:
    if records is None or len(records) < HEADER_BYTES:
        return False
    return read_header(records).attributes & COMPRESSION_MASK == Compression.ZSTD


def _refuse(
    context: RequestContext,
    answer: PartitionProduceResponse,
    topic: str,
    outcome: AppendOutcome,
) -> None:
    answer.error_code = outcome.error_code
    answer.error_message = outcome.error_message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in outcome.record_errors
    ]
    if (
        outcome.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        and context.api_version >= CURRENT_LEADER_SINCE
    ):
        leader_id, leader_epoch = context.services.leader(topic, answer.index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


def _end_unanswered(context: RequestContext, response: ProduceResponse) -> None:
    """With acks=0, closing the connection is the only way to report an error."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != NO_ERROR:
                context.services.failures.count(ApiKey.PRODUCE, answer.error_code)
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name or topic.topic_id}-{answer.index} "
                    f"failed: {ErrorCode(answer.error_code).name}"
                )
