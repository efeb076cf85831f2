"""A partition of this broker: the pure `Partition` joined with its log on disk.

`replication.replica_manager` holds one of these per partition. Append and read are direct calls,
without a hop and without a look at single records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from floodmark.records.batch import (
    ATTRIBUTES,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    HeaderFields,
    read_header,
)
from floodmark.records.errors import InvalidBatch
from floodmark.records.validation import Prepared, ProduceRules, prepare, validate_produce
from floodmark.replication import follower
from floodmark.replication.follower import (
    Append,
    BackOff,
    FollowerAnswer,
    FollowerFetch,
    Step,
)
from floodmark.replication.partition import Leadership, Partition
from floodmark.steps import Steps
from floodmark.storage.errors import AppendRefused, OffsetOutOfRange
from floodmark.storage.files import FileSlice
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.storage.producers.transaction_guards import Guard
from floodmark.vocabulary import NO_OFFSET, NO_TIMESTAMP
from floodmark.wire.errors import NO_ERROR, ErrorCode

ACKS_ALL = -1
NO_REPLICA = -1


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


ISOLATIONS: Final = {int(isolation): isolation for isolation in Isolation}
"""By the numbers that clients send."""

_READ_COMMITTED = Isolation.READ_COMMITTED


class AppendOutcome(NamedTuple):
    """What became of one partition of a produce request.

    `required_offset` is what the acknowledgement waits for: all before it must be acknowledgeable.
    `is_pending` says that it is not yet.
    """

    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    required_offset: int = 0
    is_pending: bool = False
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None


UNPREPARED: Final = AppendOutcome(
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    error_message="the settings of the topic have just changed; try again",
)
"""The batch was not prepared for the topic's present rules. Clients see this only when the rules
changed while their batch was prepared, and try again."""

Preparation: TypeAlias = Prepared | InvalidBatch
"""A refusal is told when the batch is appended: other refusals come before it."""

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


class Divergence(NamedTuple):
    """Where a follower's log and ours part: it must truncate to this (KIP-595's way of KIP-101)."""

    leader_epoch: int
    end_offset: int


class ReadOutcome(NamedTuple):
    """What one partition of a fetch request gets."""

    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: FileSlice | None = None
    aborted: list[AbortedTransaction] | None = None
    divergence: Divergence | None = None
    preferred_read_replica: int = NO_REPLICA

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


_read_outcome_of: Final[Callable[[tuple[Any, ...]], ReadOutcome]] = partial(
    tuple.__new__, ReadOutcome
)


class Replica:
    __slots__ = (
        "_counted_bytes",
        "_counted_offset",
        "_leader_high_watermark",
        "bytes_out",
        "core",
        "flush_due_offset",
        "is_here",
        "is_throttled_as_follower",
        "is_throttled_as_leader",
        "key",
        "log",
        "rules",
        "stopped_in_epoch",
        "topic_id",
    )

    def __init__(
        self,
        core: Partition,
        log: PartitionLog,
        topic_id: UUID,
        rules: ProduceRules,
        min_in_sync_replicas: int,
    ) -> None:
        self.key = (log.topic, log.partition)
        self.core = core
        self.log = log
        self.topic_id = topic_id
        # The leader epoch in which the controller told this broker to follow no more.
        self.stopped_in_epoch = -1
        self.rules = rules
        core.min_in_sync_replicas = min_in_sync_replicas
        self.flush_due_offset: int | None = None
        # What a follower was told with records that it has to sync first: nobody tells it twice.
        self._leader_high_watermark = 0
        # Whether the broker serves it, for whoever has found it before.
        self.is_here = False
        # Whether its copying is measured against the broker's throttles (KIP-73).
        self.is_throttled_as_leader = self.is_throttled_as_follower = False
        # What consumers were given, for whoever watches the broker.
        self.bytes_out = 0
        self.count_from_here()

    @property
    def min_in_sync_replicas(self) -> int:
        return self.core.min_in_sync_replicas

    @min_in_sync_replicas.setter
    def min_in_sync_replicas(self, value: int) -> None:
        self.core.min_in_sync_replicas = value

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.core.high_watermark)

    # Meters. They read what the log knows anyway: an append costs no more for them.

    def count_from_here(self) -> None:
        """Traffic is counted from now on."""
        self._counted_offset, self._counted_bytes = self.log.log_end_offset, self.log.appended_bytes
        self.bytes_out = 0

    def replace_log(self, log: PartitionLog) -> None:
        """Another log with the same records takes the place of this one."""
        self._counted_bytes += log.appended_bytes - self.log.appended_bytes
        self.log = log

    @property
    def messages_in(self) -> int:
        # A truncation takes both back.
        return max(0, self.log.log_end_offset - self._counted_offset)

    @property
    def bytes_in(self) -> int:
        return max(0, self.log.appended_bytes - self._counted_bytes)

    @property
    def is_stopped(self) -> bool:
        return self.stopped_in_epoch == self.core.leadership.leader_epoch >= 0

    def lead_or_follow(self, leadership: Leadership, now_ms: float) -> bool:
        """Applies the controller's decision to core and log; False when it is an old one."""
        is_new = leadership.is_new_after(self.core.leadership)
        if is_new:
            self._forget_unsynced()
        if not self.core.apply(leadership, now_ms):
            return False
        if is_new:
            if self.core.is_leader:
                # A new leader notes its epoch at once, even before its first record (KIP-101).
                self.log.leader_epochs.begin(leadership.leader_epoch, self.log.log_end_offset)
                self.core.leader_epoch_start_offset = self.log.log_end_offset
                self.appended()
            else:
                self._copied(self.core.high_watermark)
        return True

    def _forget_unsynced(self) -> None:
        """Before a new leader epoch: a sync of the epoch before counts no more (see `flushed`), and
        what an unclean stop has left unsynced does not count yet."""
        self.flush_due_offset = None
        self._leader_high_watermark = 0
        if self._must_flush(self.log.log_end_offset):
            core = self.core
            core.log_end_offset = max(core.high_watermark, self.log.recovery_point)

    def preparing(self, batch: memoryview, now_ms: int) -> Steps[Preparation]:
        """The part of an append that may take long, for a topic whose rules are not plain."""
        try:
            return (yield from prepare(batch, self.rules, now_ms))
        except InvalidBatch as refusal:
            # Another one: the traceback of this one holds what was unpacked.
            return InvalidBatch(refusal.error_code, refusal.text, refusal.record_errors)

    def append(
        self,
        batch: memoryview,
        acks: int,
        now_ms: int,
        guard: Guard | None = None,
        preparation: Preparation | None = None,
    ) -> AppendOutcome:
        """Appends what was sent, and writes its offset and leader epoch into it. A refusal is an
        outcome, a failing disk raises StorageError. Without a guard there is no transaction. Where
        the topic's rules are not plain, the batch must have been prepared for them."""
        core, log, rules = self.core, self.log, self.rules
        leadership = core.leadership
        if acks == ACKS_ALL or leadership.leader != core.broker_id:
            # Most produces are spared the call.
            refusal = core.refusal_to_append(acks == ACKS_ALL)
            if refusal is not None:
                return self._refusal(refusal)
        leader_epoch = leadership.leader_epoch
        base_offset = log.log_end_offset
        append_time_ms = NO_TIMESTAMP
        try:
            header: HeaderFields
            if rules.is_plain:
                header = validate_produce(batch, rules, now_ms)
            else:
                if isinstance(preparation, InvalidBatch):
                    raise preparation
                if preparation is None or preparation.rules is not rules:
                    return UNPREPARED
                batch, header = preparation.stamped(now_ms)
                if header[ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
                    append_time_ms = now_ms
            if guard is not None:
                repeated = log.append(batch, header, leader_epoch, now_ms, guard)
            elif header[ATTRIBUTES] & TRANSACTIONAL_BIT:
                return self._refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            else:
                repeated = log.append(batch, header, leader_epoch, now_ms)
        except InvalidBatch as problem:
            return self._refusal(problem.error_code, problem.text, problem.record_errors)
        except AppendRefused as problem:
            return self._refusal(problem.error_code, str(problem))
        if repeated is None:
            self.appended()
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
        self, batch: bytearray, now_ms: int, guard: Guard, transaction_version: int
    ) -> AppendOutcome:
        """Appends a batch that this broker made itself: a coordinator's records, or a marker.

        Checks nothing but its size, and not even that for a marker: without it, its transaction
        would never end.
        """
        core, log = self.core, self.log
        refusal = core.refusal_to_append(True)
        if refusal is not None:
            return AppendOutcome(refusal)
        header = read_header(batch)
        limit_bytes = log.config.max_message_bytes
        if len(batch) > limit_bytes and not header.is_control:
            text = f"a batch of {len(batch)} bytes for {self.key[0]}, which takes {limit_bytes}"
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
        self.appended()
        required_offset = log.log_end_offset
        return AppendOutcome(
            NO_ERROR,
            base_offset,
            NO_TIMESTAMP,
            log.log_start_offset,
            required_offset,
            not self.is_acknowledgeable(required_offset, ACKS_ALL),
        )

    def _refusal(
        self,
        error_code: ErrorCode,
        text: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> AppendOutcome:
        log_start_offset = (
            NO_OFFSET if error_code in _WITHOUT_LOG_START else self.log.log_start_offset
        )
        return AppendOutcome(
            error_code,
            log_start_offset=log_start_offset,
            record_errors=record_errors,
            error_message=text,
        )

    def appended(self) -> None:
        """The log has grown: moves the high watermark, unless a flush has to come first."""
        log = self.log
        log_end_offset = log.log_end_offset
        if (
            # Few topics flush by the number of records: the others are spared the call.
            log_end_offset >= log.config.flush_messages or self.flush_due_offset is not None
        ) and self._must_flush(log_end_offset):
            self.flush_due_offset = log_end_offset
        else:
            self.core.appended(log_end_offset)

    def _must_flush(self, log_end_offset: int) -> bool:
        log = self.log
        unflushed = log_end_offset - log.sync.recovery_point
        return self.flush_due_offset is not None or unflushed >= log.config.flush_messages

    def flushed(self, durable_end_offset: int, leader_epoch: int) -> None:
        """A sync that was asked for in this leader epoch has ended.

        When that epoch is over, the log may have been truncated and written again since: the sync
        says nothing about what is there now.
        """
        core = self.core
        if core.leadership.leader_epoch != leader_epoch:
            return
        if self.flush_due_offset is not None and self.flush_due_offset <= durable_end_offset:
            self.flush_due_offset = None
        if core.is_leader:
            core.appended(durable_end_offset)
        else:
            core.followed(durable_end_offset, self._leader_high_watermark)

    def is_acknowledgeable(self, required_offset: int, acks: int) -> bool:
        if acks == ACKS_ALL:
            return self.core.high_watermark >= required_offset
        return self.core.log_end_offset >= required_offset

    def readable_end(self, isolation: Isolation, *, is_follower: bool) -> int:
        if is_follower:
            return self.log.log_end_offset
        if isolation is _READ_COMMITTED:
            return self.last_stable_offset
        return self.core.high_watermark

    def read(
        self,
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
        core, log = self.core, self.log
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
        self,
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
        fenced = self.core.fence(fetch.leader_epoch)
        if fenced is not NO_ERROR:
            return ReadOutcome(fenced)
        outcome = self.read(
            fetch.fetch_offset,
            max_bytes,
            Isolation.READ_UNCOMMITTED,
            is_follower=True,
            min_one_batch=min_one_batch,
            last_fetched_epoch=fetch.last_fetched_epoch,
        )
        if is_repeated or outcome.error_code is not NO_ERROR or outcome.divergence is not None:
            return outcome
        if self.core.fetched_by(
            follower_id, fetch.fetch_offset, now_ms, broker_epoch, log_start_offset
        ):
            return outcome._replace(high_watermark=self.core.high_watermark)
        return outcome

    # Following

    def next_fetch(self) -> FollowerFetch | None:
        """What to ask the leader for; None while there is none, or while a flush has to come
        first: to fetch at an offset is to say that all before it is as safe as it has to be."""
        if self.flush_due_offset is not None:
            return None
        return follower.next_fetch(self.core, self.log.leader_epochs.latest)

    def decide(self, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
        """What to do with the answer to a fetch."""
        if self.flush_due_offset is not None:
            return BackOff(NO_ERROR)
        log = self.log
        return follower.decide(
            self.core, log.leader_epochs.latest, fetch, answer, log.end_offset_for_epoch
        )

    def decide_after_out_of_range(
        self, fetch: FollowerFetch, leader_log_start_offset: int, leader_log_end_offset: int
    ) -> Step:
        """What to do when `decide` said FindOffsets and the leader has answered."""
        if fetch != self.next_fetch():
            return BackOff(NO_ERROR)
        return follower.after_out_of_range(
            self.core, leader_log_start_offset, leader_log_end_offset
        )

    def starts_inside_a_batch(self, records: Buffer) -> int | None:
        """Where this log has to start for these records, when it is empty and starts inside the
        first of their batches, as the leader's does after DeleteRecords; else None."""
        log = self.log
        if log.log_start_offset != log.log_end_offset or len(records) < HEADER_BYTES:
            return None
        first = read_header(records)
        inside = first.base_offset < log.log_end_offset <= first.last_offset
        return first.base_offset if inside else None

    def append_as_follower(self, records: Buffer, step: Append, now_ms: int) -> None:
        """Appends what the leader sent and takes over its high watermark and log start."""
        self.log.append_as_follower(records, now_ms)
        self._copied(step.leader_high_watermark)
        # Not beyond our own high watermark: the leader's log start never is beyond its own.
        self.log.advance_log_start(
            min(step.leader_log_start_offset, max(self.core.high_watermark, 0))
        )

    def _copied(self, leader_high_watermark: int) -> None:
        """A follower's log has grown: it counts, unless a flush has to come first."""
        log_end_offset = self.log.log_end_offset
        if self._must_flush(log_end_offset):
            self.flush_due_offset = log_end_offset
            self._leader_high_watermark = leader_high_watermark
        else:
            self.core.followed(log_end_offset, leader_high_watermark)

    def truncated(self) -> None:
        """A follower's log was cut, by `LogManager`, as `decide` said. No sync is waited for any
        longer: the offset it was to reach may be gone, and what is left has been synced before."""
        self.flush_due_offset = None
        self._leader_high_watermark = 0
        self.core.truncated(self.log.log_end_offset, self.log.log_start_offset)
