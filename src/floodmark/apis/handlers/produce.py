"""Produce (key 0), versions 3 to 13: append a batch to each of several partitions.

acks=0 is never answered, acks=1 when the leader has it, acks=all when every in-sync replica does.

- v3 record batches of magic 2, transactional id; v5 log start offset in the answer
- v7 zstd; v8 which records were refused, with a text
- v9 flexible; v10 the current leader in the answer after NOT_LEADER_OR_FOLLOWER
- v11, v12 transactions of KIP-890; v13 topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeAlias

from floodmark.apis.access import Access, each_topic, transactional_id
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deep_validation import Preparations, prepare
from floodmark.apis.transactional_produce import (
    Verified,
    is_closed,
    topic_name,
    verify_transaction,
)
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from floodmark.records.batch import COMPRESSION_MASK, HEADER_BYTES, read_header
from floodmark.records.compression import Compression
from floodmark.replication.replica import AppendOutcome
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

ACCESS = Access(
    needs=(transactional_id(),),
    each=(each_topic(Operation.WRITE, "topic_data", "responses", text=None),),
    is_answered=lambda request: request.acks != 0,
)


def handle(
    context: RequestContext, request: ProduceRequest
) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
    """First what may take long (`apis.deep_validation`), then whether the transaction is open,
    then the append; after the last wait there is nothing in between."""
    preparations = prepare(context, request)
    if not isinstance(preparations, dict):
        return _append_when_prepared(context, request, preparations)
    return _append_prepared(context, request, preparations)


async def _append_when_prepared(
    context: RequestContext, request: ProduceRequest, preparing: Awaitable[Preparations]
) -> ProduceResponse | None:
    answer = _append_prepared(context, request, await preparing)
    return answer if answer is None or isinstance(answer, ProduceResponse) else await answer


def _append_prepared(
    context: RequestContext, request: ProduceRequest, preparations: Preparations
) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
    if request.transactional_id is None:
        return append(context, request, {}, preparations)
    verified = verify_transaction(context, request)
    if isinstance(verified, Verified):
        return append(context, request, verified.refusals, preparations, verified)
    return _append_when_verified(context, request, verified, preparations)


async def _append_when_verified(
    context: RequestContext,
    request: ProduceRequest,
    verification: Awaitable[Verified],
    preparations: Preparations,
) -> ProduceResponse | None:
    """The records stay where they are meanwhile: the connection is muted until the answer.

    Between the last check of the guards, which is part of the append, and the append nothing may
    wait: a marker could come in between.
    """
    verified = await verification
    answer = append(context, request, verified.refusals, preparations, verified)
    return await answer if isinstance(answer, Promise) else answer


def append(
    context: RequestContext,
    request: ProduceRequest,
    decided: Outcomes,
    preparations: Preparations,
    verified: Verified | None = None,
) -> Answer:
    """Append to all partitions but those of which it is decided what becomes of them."""
    replicas = context.services.replicas
    acks = request.acks
    response = ProduceResponse(responses=[])
    pending: dict[TopicPartition, tuple[AppendOutcome, PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        name = topic_name(context, topic)
        answers: list[PartitionProduceResponse] = []
        for partition in topic.partition_data:
            if name is None:
                outcome = AppendOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
            elif context.api_version < ZSTD_SINCE and _is_zstd(partition.records):
                text = f"Produce v{context.api_version} knows no zstd, v{ZSTD_SINCE} does"
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
                    preparations.get(id(partition)) if preparations else None,
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
                pending[key] = outcome, answer
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
        for key, outcome in settled.items():
            if outcome.error_code is not NO_ERROR:
                _refuse(context, pending[key][1], key[0], outcome)
        return response

    waiting = {key: outcome for key, (outcome, _) in pending.items()}
    return replicas.acknowledged(waiting, acks, request.timeout_ms).map(settle)


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
    """With acks=0 the only way to say that something went wrong is to end the connection."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != NO_ERROR:
                context.services.failures.count(ApiKey.PRODUCE, answer.error_code)
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name or topic.topic_id}-{answer.index} "
                    f"failed: {ErrorCode(answer.error_code).name}"
                )
