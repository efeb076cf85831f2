"""Verifies that the partitions of a transactional produce belong to the open transaction.

Otherwise a late produce of an ended transaction would start one that nobody ends (KIP-890). Called
by `handlers.produce`. A partition where the producer's transaction is already open needs no
verification. For clients of the second protocol (v12) the coordinator adds the partitions; for
older ones it only confirms that they were added. The response may take a while, so it comes with
guards that the logs check when they append (`storage.producers.transaction_guards`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from floodmark.apis.context import RequestContext
from floodmark.metadata.image import INTERNAL_TOPICS
from floodmark.records.batch import HEADER_BYTES, BatchHeader, read_header
from floodmark.replication.outcomes import AppendOutcome
from floodmark.storage.errors import AppendRefused
from floodmark.storage.producers.transaction_guards import AppendGuard, Unguarded
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.produce import ProduceRequest, TopicProduceData

Refusals = dict[TopicPartition, AppendOutcome]

TOPIC_IDS_SINCE = 13
ADDS_PARTITIONS_SINCE = 12
KNOWS_ABORTABLE_SINCE = 11
MAY_WRITE_INTERNAL = "__admin_client"
"""The client id that Kafka allows to write to coordinator topics."""

_TRY_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(slots=True)
class Verified:
    """The refused partitions, and the guards of the others.

    `default`: a transaction that was open before verification must still be open.
    """

    refusals: Refusals
    guards: dict[TopicPartition, AppendGuard]
    default: Unguarded = Unguarded.MUST_BE_OPEN

    def guard_of(self, key: TopicPartition) -> AppendGuard:
        return self.guards.get(key, self.default)

    def refuse(self, context: RequestContext, errors: dict[TopicPartition, ErrorCode]) -> Verified:
        self.refusals.update(_refusals(context, errors))
        return self


def topic_name(context: RequestContext, topic: TopicProduceData) -> str | None:
    """None for an unknown topic id."""
    if context.api_version >= TOPIC_IDS_SINCE:
        return context.services.topic_name(topic.topic_id)
    return topic.name


def is_closed(context: RequestContext, name: str) -> bool:
    """Whether a topic belongs to a coordinator, so that clients may not write to it."""
    return name in INTERNAL_TOPICS and context.client_id != MAY_WRITE_INTERNAL


def verify_transaction(
    context: RequestContext, request: ProduceRequest
) -> Verified | Awaitable[Verified]:
    """What each partition accepts, now or once the coordinator has responded.

    If anything changed meanwhile, the guards tell the logs at the moment of the append.
    """
    batches: dict[TopicPartition, BatchHeader] = {}
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is None or is_closed(context, name):
            # Refused later: the transaction must not get a marker there.
            continue
        for partition in topic.partition_data:
            records = partition.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            header = read_header(records)
            if header.is_transactional:
                batches[name, partition.index] = header
    producers = {(header.producer_id, header.producer_epoch) for header in batches.values()}
    if len(producers) > 1:
        # A transactional id has one producer: the coordinator cannot vouch for another's records.
        return Verified(_refuse_all(context, request), {})
    if not batches or not _is_wanted(context):
        return Verified({}, {}, Unguarded.NOT_CHECKED)
    (producer,) = producers
    verified = Verified({}, {})
    _start(context, batches, verified)
    if not verified.guards:
        return verified
    outcome = context.services.transactions.verify_or_add(
        request.transactional_id or "",
        *producer,
        frozenset(verified.guards),
        add=context.api_version >= ADDS_PARTITIONS_SINCE,
        before_retry=lambda: _start(context, batches, verified),
    )
    if isinstance(outcome, dict):
        return verified.refuse(context, outcome)
    return _verified_later(context, verified, outcome)


def _start(
    context: RequestContext, batches: dict[TopicPartition, BatchHeader], verified: Verified
) -> None:
    """Takes the guards before asking the coordinator: an outdated response must not pass."""
    now_ms = context.services.clock.now_ms()
    verified.guards.clear()
    for key, header in batches.items():
        replica = context.services.replicas.find(key)
        if replica is None:
            continue
        try:
            guard = replica.log.producers.start_verification(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                now_ms,
                bumps_epoch=context.api_version >= ADDS_PARTITIONS_SINCE,
            )
        except AppendRefused as problem:
            verified.refusals[key] = AppendOutcome(problem.error_code, error_message=str(problem))
        else:
            if guard is not Unguarded.MUST_BE_OPEN:
                verified.guards[key] = guard


def _refuse_all(context: RequestContext, request: ProduceRequest) -> Refusals:
    outcome = AppendOutcome(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        error_message="the records of a transaction must all come from one producer",
    )
    return {
        (topic_name(context, topic) or "", partition.index): outcome
        for topic in request.topic_data
        for partition in topic.partition_data
    }


def _is_wanted(context: RequestContext) -> bool:
    """Adding is part of the protocol. Only the mere confirmation can be disabled."""
    return context.api_version >= ADDS_PARTITIONS_SINCE or context.services.config.get_bool(
        "transaction.partition.verification.enable"
    )


async def _verified_later(
    context: RequestContext, verified: Verified, outcome: Awaitable[dict[TopicPartition, ErrorCode]]
) -> Verified:
    return verified.refuse(context, await outcome)


def _refusals(context: RequestContext, errors: dict[TopicPartition, ErrorCode]) -> Refusals:
    return {
        key: AppendOutcome(
            _as_known_to(context.api_version, error),
            error_message=f"the partition could not be added to the transaction: {error.name}",
        )
        for key, error in errors.items()
    }


def _as_known_to(api_version: int, error: ErrorCode) -> ErrorCode:
    """Producers retry NOT_ENOUGH_REPLICAS, but treat coordinator errors as fatal."""
    if error in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_PARTITIONS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error
