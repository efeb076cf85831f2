"""The leader's operations on a partition: appends for producers and coordinators, reads for
consumers and followers.

Called by `replication.replica_manager` and by the reads of a fetch (`replication.fetch_reads`,
`replication.follower_reads`). Appends and reads are direct calls that decode no records. They are
functions of a `Replica`, called through the module, so that tests can replace them.
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
"""All other refusals of an append include the log start offset, as in Kafka."""

_appended_as: Final[Callable[[tuple[Any, ...]], AppendOutcome]] = partial(
    tuple.__new__, AppendOutcome
)
"""Creates the outcome of most appends, twice as fast as the class's constructor."""

_read_outcome_of: Final[Callable[[tuple[Any, ...]], ReadOutcome]] = partial(
    tuple.__new__, ReadOutcome
)


def validating(replica: Replica, batch: memoryview, now_ms: int) -> Steps[DeepValidation]:
    """The part of an append that may take long, for topics whose records must be validated."""
    try:
        return (yield from validate_deeply(batch, replica.rules, now_ms))
    except InvalidBatch as refusal:
        # A new exception, because this one's traceback keeps the decompressed data alive.
        return InvalidBatch(refusal.error_code, refusal.text, refusal.record_errors)


def append(
    replica: Replica,
    batch: memoryview,
    acks: int,
    now_ms: int,
    guard: AppendGuard | None = None,
    validation: DeepValidation | None = None,
) -> AppendOutcome:
    """Sets the batch's offset and leader epoch, and appends it.

    Returns a refusal as an outcome; raises StorageError if the disk fails. A transactional batch
    needs a guard. If the topic's rules need more than the header, pass the result of `validating`.
    """
    core, log, rules = replica.core, replica.log, replica.rules
    leadership = core.leadership
    if acks == ACKS_ALL or leadership.leader != core.broker_id:
        # Most produces skip this call.
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
    return _appended_as(
        (
            NO_ERROR,
            base_offset,
            append_time_ms,
            log.log_start_offset,
            required_offset,
            not replica.is_acknowledgeable(required_offset, acks),
            (),
            None,
        )
    )


def append_own(
    replica: Replica, batch: bytearray, now_ms: int, guard: AppendGuard, transaction_version: int
) -> AppendOutcome:
    """Appends a batch of this broker's own: a coordinator's records, or a marker.

    Checks only its size, and for a marker not even that: without its marker, a transaction would
    never end.
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
    log.producers.forget_replicated(core.high_watermark)
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
    """With `leader_only=False` a follower also serves consumers, but only up to its own high
    watermark: it may still truncate the rest (KIP-392)."""
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
    end_offset = replica.readable_end(isolation, is_follower=is_follower)
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
    """Serves a follower's fetch. Its fetch offset is its progress, unless its log has diverged.

    Reading the same fetch again after a wait is no progress: the follower may have died since.
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
