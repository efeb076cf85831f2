"""Fetch (key 1), versions 4 to 18: read from several partitions, optionally waiting for data.

- v4 isolation level, aborted transactions; v5 log start offset; v7 incremental sessions (KIP-227)
- v9 leader epoch fencing; v11 the reader's rack; v12 flexible, diverging epoch
- v13 topics by id; v15 the replica's epoch; v16 node endpoints; v17 folder id; v18 high watermark
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeAlias

from floodmark.apis.access import Access
from floodmark.apis.authorizer import THE_CLUSTER, Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.prepared.fetch_answers import prepared_answer
from floodmark.network.transfer import Answer
from floodmark.promise import Promise
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchPlan, FetchTarget, PartitionKey, Topic
from floodmark.replication.outcomes import ISOLATIONS, NO_REPLICA, Isolation, ReadOutcome
from floodmark.storage.indexes.transaction_index import AbortedTransaction as AbortedInLog
from floodmark.vocabulary import NO_BROKER_EPOCH, NO_OFFSET, TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode
from floodmark.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

RACK_SINCE = 11
CURRENT_LEADER_SINCE = 12
DIVERGING_EPOCH_SINCE = 12
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors that come with the current leader (KIP-951)."""

NOT_ALLOWED = ReadOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

ACCESS = Access(inside=("READ on each TOPIC; for replicas, CLUSTER_ACTION on CLUSTER",))


_Targets: TypeAlias = list[tuple[TopicPartition | None, FetchTarget]]


class _Read(NamedTuple):
    """A fetch in progress: its plan, and the partitions in the order of its outcomes."""

    plan: FetchPlan
    targets: _Targets
    is_follower: bool
    names_aborted: bool
    denied: _Targets
    """Partitions the reader may not read."""


Fetched: TypeAlias = FetchResponse | Answer


def handle(context: RequestContext, request: FetchRequest) -> Fetched | Promise[Fetched]:
    if request.isolation_level not in ISOLATIONS:
        return _refused(context, request)
    plan = _plan(context, request)
    if plan.error_code is not NO_ERROR:
        return FetchResponse(error_code=plan.error_code)
    limits = _limits(context, request)
    targets = _with_keys(context, plan.targets)
    is_follower = limits.replica_id >= 0
    denied: _Targets = []
    if context.guard is not None:
        targets, denied = _sorted(context.guard, targets, is_follower)
    names_aborted = limits.isolation is Isolation.READ_COMMITTED and not is_follower
    read = _Read(plan, targets, is_follower, names_aborted, denied)
    outcomes = context.services.replicas.fetch(targets, limits)
    if isinstance(outcomes, list):
        return _answer(context, read, outcomes)
    return outcomes.map(partial(_answer, context, read))


def _sorted(guard: Guard, targets: _Targets, is_follower: bool) -> tuple[_Targets, _Targets]:
    """Splits the targets into allowed and denied ones.

    Checks the whole session each time, so that it ends with the permission. Unknown topic ids stay
    in, to be answered as such.
    """
    if is_follower:
        is_allowed = guard.allows(Operation.CLUSTER_ACTION, THE_CLUSTER)
        return (targets, []) if is_allowed else ([], targets)
    names = {key[0] for key, _ in targets if key is not None}
    allowed = {
        name for name in names if guard.allows(Operation.READ, Resource(ResourceKind.TOPIC, name))
    }
    readable: _Targets = []
    denied: _Targets = []
    for key, target in targets:
        is_allowed = key is None or key[0] in allowed
        (readable if is_allowed else denied).append((key, target))
    return readable, denied


def _refused(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Responds to an invalid request. Old responses can carry errors only in partitions."""
    error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(
                    partition_index=partition.partition,
                    error_code=error_code,
                    high_watermark=NO_OFFSET,
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
        if context.api_version < TOPIC_IDS_SINCE
    ]
    return FetchResponse(error_code=error_code, session_id=request.session_id, responses=responses)


def _plan(context: RequestContext, request: FetchRequest) -> FetchPlan:
    uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
    targets = _wanted(request, uses_topic_ids)
    forgotten: list[PartitionKey] = [
        (topic.topic_id if uses_topic_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    plan = context.services.fetch_sessions.plan(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        uses_topic_ids=uses_topic_ids,
        now_ms=context.services.clock.monotonic_ms(),
    )
    if context.api_version < DIVERGING_EPOCH_SINCE:
        # The session may have started in a version that supports diverging epochs.
        for target in plan.targets:
            target.last_fetched_epoch = -1
    return plan


def _wanted(request: FetchRequest, uses_topic_ids: bool) -> list[FetchTarget]:
    """Each partition once: as in Kafka, its last entry counts."""
    targets = [
        FetchTarget(
            topic.topic_id if uses_topic_ids else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
            partition.high_watermark,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    if len(targets) <= 1 or _names_each_once(request, uses_topic_ids):
        return targets
    return list({target.key: target for target in targets}.values())


def _names_each_once(request: FetchRequest, uses_topic_ids: bool) -> bool:
    """What nearly all clients do. Comparing counts is faster than building keys."""
    topics = request.topics
    if len(topics) > 1:
        names = {topic.topic_id if uses_topic_ids else topic.topic for topic in topics}
        if len(names) < len(topics):
            return False
    return all(
        len({partition.partition for partition in topic.partitions}) == len(topic.partitions)
        for topic in topics
    )


def _with_keys(
    context: RequestContext, targets: list[FetchTarget]
) -> list[tuple[TopicPartition | None, FetchTarget]]:
    """Each target with its topic name, looked up once for adjacent ones."""
    keyed: list[tuple[TopicPartition | None, FetchTarget]] = []
    topic: Topic | None = None
    name: str | None = None
    for target in targets:
        if target.topic is not topic:
            topic = target.topic
            name = topic if isinstance(topic, str) else context.services.topic_name(topic)
        keyed.append((None if name is None else (name, target.partition), target))
    return keyed


def _limits(context: RequestContext, request: FetchRequest) -> FetchLimits:
    replica_id, replica_epoch = request.replica_id, NO_BROKER_EPOCH
    if context.api_version >= REPLICA_STATE_SINCE:
        state = request.replica_state
        replica_id, replica_epoch = state.replica_id, state.replica_epoch
    max_bytes = min(request.max_bytes, context.services.fetch_max_bytes)
    quotas = context.services.quotas
    if not quotas.is_unlimited and replica_id < 0:
        most = quotas.most_fetched(context.peer.principal, context.client_id)
        max_bytes = int(min(max_bytes, most))
    return FetchLimits(
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_wait_ms,
        ISOLATIONS[request.isolation_level],
        replica_id,
        replica_epoch,
        context.api_version < RACK_SINCE,
        request.rack_id,
    )


def _answer(context: RequestContext, read: _Read, outcomes: list[ReadOutcome]) -> Fetched:
    plan = read.plan
    if not context.services.quotas.is_unlimited:
        throttle_ms = _throttle_ms(context, read, outcomes)
        if throttle_ms > 0:
            # As in Kafka: send nothing, so that the client asks again.
            return FetchResponse(session_id=plan.session_id, throttle_time_ms=throttle_ms)
    told: list[tuple[TopicPartition | None, FetchTarget, ReadOutcome]] = []
    served = []
    replicas = context.services.replicas
    for (key, target), outcome in zip(read.targets, outcomes, strict=True):
        if outcome.records is not None:
            served.append(target)
            replica = None if key is None else replicas.find(key)
            if replica is not None and not read.is_follower:
                replica.bytes_out += outcome.records.size_bytes
        if plan.session is not None and not _is_news(target, outcome) and plan.is_incremental:
            continue
        told.append((key, target, outcome))
    told += [(key, target, NOT_ALLOWED) for key, target in read.denied]
    plan.sent(served)
    if len(told) == 1 and told[0][2].records is not None:
        _, target, outcome = told[0]
        kind = (context.api_version, target.topic, target.partition, read.names_aborted)
        answer = prepared_answer(context, kind, plan.session_id, outcome)
        if answer is not None:
            return answer
    responses = []
    for topic, of_topic in groupby(told, key=lambda one: one[1].topic):
        response = _topic_response(topic)
        response.partitions = [
            _partition_data(context, key, target.partition, outcome)
            for key, target, outcome in of_topic
        ]
        responses.append(response)
    return FetchResponse(session_id=plan.session_id, responses=responses)


def _throttle_ms(context: RequestContext, read: _Read, outcomes: list[ReadOutcome]) -> int:
    """Counts what will be sent. Client quotas do not throttle followers."""
    context.is_counted = True
    if read.is_follower:
        return 0
    sizes = (one.records.size_bytes for one in outcomes if one.records is not None)
    usage = context.usage(sum(sizes))
    throttle_ms = context.services.quotas.throttle_ms(usage)
    if throttle_ms > 0:
        context.services.quotas.forgive_answer(usage)
        context.throttle_ms = throttle_ms
    return throttle_ms


def _is_news(target: FetchTarget, outcome: ReadOutcome) -> bool:
    return target.is_news(
        error=outcome.error_code is not NO_ERROR
        or outcome.divergence is not None
        or outcome.preferred_read_replica != NO_REPLICA,
        has_records=outcome.records is not None,
        high_watermark=outcome.high_watermark,
        log_start_offset=outcome.log_start_offset,
        last_stable_offset=outcome.last_stable_offset,
    )


def _names_leader(context: RequestContext, error_code: ErrorCode) -> bool:
    return error_code in MOVED and context.api_version >= CURRENT_LEADER_SINCE


def _topic_response(topic: Topic) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic, partitions=[])
    return FetchableTopicResponse(topic_id=topic, partitions=[])


def _aborted(found: list[AbortedInLog]) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in found
    ]


def _partition_data(
    context: RequestContext, key: TopicPartition | None, partition: int, outcome: ReadOutcome
) -> PartitionData:
    data = PartitionData(
        partition_index=partition,
        error_code=outcome.error_code,
        high_watermark=outcome.high_watermark,
        last_stable_offset=outcome.last_stable_offset,
        log_start_offset=outcome.log_start_offset,
        # Zero bytes, not null: some clients treat null as an error.
        records=b"" if outcome.records is None else outcome.records,
        aborted_transactions=None if outcome.aborted is None else _aborted(outcome.aborted),
        preferred_read_replica=outcome.preferred_read_replica,
    )
    if outcome.divergence is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=outcome.divergence.leader_epoch, end_offset=outcome.divergence.end_offset
        )
    if key is not None and _names_leader(context, outcome.error_code):
        leader_id, leader_epoch = context.services.leader(*key)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return data
