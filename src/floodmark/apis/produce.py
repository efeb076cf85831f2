"""Produce (key 0), versions 3 to 13: append a batch to each of several partitions.

acks=0 is never answered, acks=1 when the leader has it, acks=all when every in-sync replica does.

- v3 record batches of magic 2, transactional id; v5 log start offset in the answer
- v7 zstd; v8 which records were refused, with a text
- v9 flexible; v10 the current leader in the answer after NOT_LEADER_OR_FOLLOWER
- v11, v12 transactions of KIP-890; v13 topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.apis.transactional_produce import verify_transaction
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from floodmark.replication.replica import AppendOutcome
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

CURRENT_LEADER_SINCE = 10
TOPIC_IDS_SINCE = 13
VALID_ACKS = (-1, 0, 1)

Outcomes = dict[tuple[str, int], AppendOutcome]
Answer: TypeAlias = "ProduceResponse | Promise[ProduceResponse] | None"


def handle(
    context: RequestContext, request: ProduceRequest
) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
    names = [_topic_name(context, topic) for topic in request.topic_data]
    if request.transactional_id is None:
        return _append(context, request, names, {})
    refused = verify_transaction(context, request, names)
    if isinstance(refused, dict):
        return _append(context, request, names, refused)
    return _append_when_verified(context, request, names, refused)


async def _append_when_verified(
    context: RequestContext,
    request: ProduceRequest,
    names: Sequence[str | None],
    verification: Awaitable[Outcomes],
) -> ProduceResponse | None:
    """The records stay where they are meanwhile: the connection is muted until the answer."""
    answer = _append(context, request, names, await verification)
    return await answer if isinstance(answer, Promise) else answer


def _append(
    context: RequestContext,
    request: ProduceRequest,
    names: Sequence[str | None],
    refused: Outcomes,
) -> Answer:
    replicas = context.services.replicas
    acks = request.acks
    in_transaction = request.transactional_id is not None
    outcomes: Outcomes = {}
    for name, topic in zip(names, request.topic_data, strict=True):
        if name is None:
            continue
        for partition in topic.partition_data:
            key = (name, partition.index)
            if acks not in VALID_ACKS:
                outcomes[key] = AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
            elif key in refused:
                outcomes[key] = refused[key]
            else:
                outcomes[key] = replicas.append(
                    key, partition.records or b"", acks, in_transaction=in_transaction
                )
    if acks == 0:
        _end_unanswered(outcomes)
        return None
    waiting = replicas.acknowledged(outcomes, acks, request.timeout_ms)
    if waiting is None:
        return _response(context, request, names, outcomes)
    return waiting.map(lambda later: _response(context, request, names, later))


def _topic_name(context: RequestContext, topic: TopicProduceData) -> str | None:
    if context.api_version >= TOPIC_IDS_SINCE:
        return context.services.topic_name(topic.topic_id)
    return topic.name


def _end_unanswered(outcomes: Outcomes) -> None:
    """With acks=0 the only way to say that something went wrong is to end the connection."""
    for (topic, partition), outcome in outcomes.items():
        if outcome.error_code is not ErrorCode.NONE:
            raise CloseConnection(
                f"produce with acks=0 to {topic}-{partition} failed: {outcome.error_code.name}"
            )


def _response(
    context: RequestContext,
    request: ProduceRequest,
    names: Sequence[str | None],
    outcomes: Outcomes,
) -> ProduceResponse:
    responses = []
    for name, topic in zip(names, request.topic_data, strict=True):
        if name is None:
            partitions = [
                PartitionProduceResponse(
                    index=p.index, error_code=ErrorCode.UNKNOWN_TOPIC_ID, base_offset=-1
                )
                for p in topic.partition_data
            ]
        else:
            partitions = [
                _partition_response(context, name, p.index, outcomes[(name, p.index)])
                for p in topic.partition_data
            ]
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    return ProduceResponse(responses=responses)


def _partition_response(
    context: RequestContext, topic: str, partition: int, outcome: AppendOutcome
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=partition,
        error_code=outcome.error_code,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
    )
    if outcome.error_code is not ErrorCode.NONE:
        response.error_message = outcome.error_message
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in outcome.record_errors
        ]
        if (
            outcome.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            and context.api_version >= CURRENT_LEADER_SINCE
        ):
            leader_id, leader_epoch = context.services.leader(topic, partition)
            response.current_leader = LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
    return response
