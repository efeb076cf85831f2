"""What a leader does with a partition of this broker: append for producers and coordinators, read
for consumers and followers.

Called by `replication.replica_manager` and by the reads of a fetch (`replication.fetch_reads`,
`replication.follower_reads`). Append and read are direct calls, without a hop and without a look at
single records. They are functions of a `Replica`, and called through the module: tests replace
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from floodmark.records.batch import (
    ATTRIBUTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    HeaderFields,
    read_header,
)
from floodmark.records.errors import InvalidBatch
from floodmark.records.validation import validate_deeply, validate_produce
from floodmark.replication.follower import FollowerFetch
from floodmark.replication.outcomes import (
    ACKS_ALL,
    NO_REPLICA,
    NOT_VALIDATED,
    AppendOutcome,
    DeepValidation,
    Divergence,
    Isolation,
    ReadOutcome,
)
from floodmark.replication.replica import Replica
from floodmark.steps import Steps
from floodmark.storage.errors import AppendRefused, OffsetOutOfRange
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.storage.producers.transaction_guards import AppendGuard
from floodmark.vocabulary import NO_OFFSET, NO_TIMESTAMP
from floodmark.wire.errors import NO_ERROR, ErrorCode

_READ_COMMITTED: Final = Isolation.READ_COMMITTED

_WITHOUT_LOG_START: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""All other refusals of an append say where the log begins, as Kafka's do."""

_appended_as: Final[Callable[[tuple[Any, ...]], AppendOutcome]] = partial(
    tuple.__new__, AppendOutcome
)
"""Makes the outcome of most appends in half the time that the class's own constructor takes."""

_read_outcome_of: Final[Callable[[tuple[Any, ...]], ReadOutcome]] = partial(
    tuple.__new__, ReadOutcome
)


def validating(replica: Replica, batch: memoryview, now_ms: int) -> Steps[DeepValidation]:
    """The part of an append that may take long, for a topic whose rules are not plain."""
    try:
        return (yield from validate_deeply(batch, replica.rules, now_ms))
    except InvalidBatch as refusal:
        # Another one: the traceback of this one holds what was unpacked.
        return InvalidBatch(refusal.error_code, refusal.text, refusal.record_errors)


def append(
    replica: Replica,
    batch: memoryview,
    acks: int,
    now_ms: int,
    guard: AppendGuard | None = None,
    validation: DeepValidation | None = None,
) -> AppendOutcome:
    """Appends what was sent, and writes its offset and leader epoch into it. A refusal is an
    outcome, a failing disk raises StorageError. Without a guard there is no transaction. Where
    the topic's rules are not plain, the batch must have been validated by them."""
    core, log, rules = replica.core, replica.log, replica.rules
    leadership = core.leadership
    if acks == ACKS_ALL or leadership.leader != core.broker_id:
        # Most produces are spared the call.
        refusal = core.refusal_to_append(acks == ACKS_ALL)
        if refusal is not None:
            return _refusal(replica, refusal)
    leader_epoch = leadership.leader_epoch
    base_offset = log.log_end_offset
    append_time_ms = NO_TIMESTAMP
    try:
        header: HeaderFields
        if rules.is_plain:
            header = validate_produce(batch, rules, now_ms)
        else:
            if isinstance(validation, InvalidBatch):
                raise validation
            if validation is None or validation.rules is not rules:
                return NOT_VALIDATED
            batch, header = validation.stamped(now_ms)
            if header[ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
                append_time_ms = now_ms
        if guard is not None:
            repeated = log.append(batch, header, leader_epoch, now_ms, guard)
        elif header[ATTRIBUTES] & TRANSACTIONAL_BIT:
            return _refusal(replica, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        else:
            repeated = log.append(batch, header, leader_epoch, now_ms)
    except InvalidBatch as problem:
        return _refusal(replica, problem.error_code, problem.text, problem.record_errors)
    except AppendRefused as problem:
        return _refusal(replica, problem.error_code, str(problem))
    if repeated is None:
        replica.appended()
        required_offset = log.log_end_offset
    else:
        base_offset, append_time_ms = repeated.base_offset, repeated.timestamp
        required_offset = repeated.last_offset + 1
    acknowledgeable = core.high_watermark if acks == ACKS_ALL else core.log_end_offset
    return _appended_as(
        (
            NO_ERROR,
            base_offset,
            append_time_ms,
            log.log_start_offset,
            required_offset,
            acknowledgeable < required_offset,
            (),
            None,
        )
    )


def append_own(
    replica: Replica, batch: bytearray, now_ms: int, guard: AppendGuard, transaction_version: int
) -> AppendOutcome:
    """Appends a batch that this broker made itself: a coordinator's records, or a marker.

    Checks nothing but its size, and not even that for a marker: without it, its transaction
    would never end.
    """
    core, log = replica.core, replica.log
    refusal = core.refusal_to_append(True)
    if refusal is not None:
        return AppendOutcome(refusal)
    header = read_header(batch)
    limit_bytes = log.config.max_message_bytes
    if len(batch) > limit_bytes and not header.is_control:
        text = f"a batch of {len(batch)} bytes for {replica.key[0]}, which takes {limit_bytes}"
        return AppendOutcome(ErrorCode.RECORD_LIST_TOO_LARGE, error_message=text)
    base_offset = log.log_end_offset
    try:
        log.append(
            batch,
            header,
            core.leadership.leader_epoch,
            now_ms,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
            guard=guard,
        )
    except AppendRefused as problem:
        return AppendOutcome(problem.error_code, error_message=str(problem))
    replica.appended()
    required_offset = log.log_end_offset
    return AppendOutcome(
        NO_ERROR,
        base_offset,
        NO_TIMESTAMP,
        log.log_start_offset,
        required_offset,
        not replica.is_acknowledgeable(required_offset, ACKS_ALL),
    )


def _refusal(
    replica: Replica,
    error_code: ErrorCode,
    text: str | None = None,
    record_errors: Sequence[tuple[int, str]] = (),
) -> AppendOutcome:
    log_start_offset = (
        NO_OFFSET if error_code in _WITHOUT_LOG_START else replica.log.log_start_offset
    )
    return AppendOutcome(
        error_code,
        log_start_offset=log_start_offset,
        record_errors=record_errors,
        error_message=text,
    )


def read(
    replica: Replica,
    fetch_offset: int,
    max_bytes: int,
    isolation: Isolation,
    is_follower: bool,
    min_one_batch: bool,
    last_fetched_epoch: int = -1,
    leader_only: bool = True,
) -> ReadOutcome:
    """With `leader_only=False` a follower serves a consumer, too, up to its own high watermark
    and no further: the rest it may still truncate (KIP-392)."""
    core, log = replica.core, replica.log
    if core.leadership.leader != core.broker_id and (
        leader_only or is_follower or log.is_truncating
    ):
        return ReadOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    high_watermark = core.high_watermark
    last_stable_offset = log.last_stable_offset(high_watermark)
    if last_fetched_epoch >= 0:
        epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return ReadOutcome(
                NO_ERROR,
                high_watermark,
                last_stable_offset,
                log.log_start_offset,
                divergence=Divergence(epoch, end_offset),
            )
    if is_follower:
        end_offset = log.log_end_offset
    elif isolation is _READ_COMMITTED:
        end_offset = last_stable_offset
    else:
        end_offset = high_watermark
    try:
        records = log.read(fetch_offset, max_bytes, end_offset, min_one_batch)
    except OffsetOutOfRange:
        return ReadOutcome(ErrorCode.OFFSET_OUT_OF_RANGE)
    aborted = None
    if isolation is _READ_COMMITTED and not is_follower:
        aborted = (
            []
            if records is None
            else log.aborted_transactions(
                fetch_offset, min(last_stable_offset, log.end_of_slice(fetch_offset, records))
            )
        )
    return _read_outcome_of(
        (
            NO_ERROR,
            high_watermark,
            last_stable_offset,
            log.log_start_offset,
            records,
            aborted,
            None,
            NO_REPLICA,
        )
    )


def read_for_follower(
    replica: Replica,
    follower_id: int,
    broker_epoch: int,
    fetch: FollowerFetch,
    max_bytes: int,
    now_ms: float,
    *,
    min_one_batch: bool = True,
    log_start_offset: int = NO_OFFSET,
    is_repeated: bool = False,
) -> ReadOutcome:
    """A follower's fetch: what it asks for says how far it is, unless its log has diverged.

    When the same fetch is read again after a wait, that says nothing new about the follower:
    it may have died since it asked.
    """
    fenced = replica.core.fence(fetch.leader_epoch)
    if fenced is not NO_ERROR:
        return ReadOutcome(fenced)
    outcome = read(
        replica,
        fetch.fetch_offset,
        max_bytes,
        Isolation.READ_UNCOMMITTED,
        is_follower=True,
        min_one_batch=min_one_batch,
        last_fetched_epoch=fetch.last_fetched_epoch,
    )
    if is_repeated or outcome.error_code is not NO_ERROR or outcome.divergence is not None:
        return outcome
    if replica.core.fetched_by(
        follower_id, fetch.fetch_offset, now_ms, broker_epoch, log_start_offset
    ):
        return outcome._replace(high_watermark=replica.core.high_watermark)
    return outcome
