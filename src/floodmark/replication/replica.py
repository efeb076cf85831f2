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

from floodmark.records.batch import ATTRIBUTES, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT
from floodmark.records.errors import InvalidBatch
from floodmark.records.validation import ProduceRules, fit_to_topic, validate_produce
from floodmark.replication.follower import FollowerFetch
from floodmark.replication.partition import Leadership, Partition
from floodmark.storage.errors import AppendRefused, OffsetOutOfRange
from floodmark.storage.files import FileSlice
from floodmark.storage.partition_log import PartitionLog
from floodmark.storage.transaction_index import AbortedTransaction
from floodmark.wire.errors import NO_ERROR, ErrorCode

ACKS_ALL = -1
NO_OFFSET = -1
NO_TIMESTAMP = -1


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


Appended: TypeAlias = int | AppendOutcome
"""The base offset alone, where all went as it mostly does: at the end of the log, with the
producer's time, to be acknowledged now. To name what is always the same takes as long as to check
the batch. `Replica.in_full` names it for who wants it."""


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

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


_read_outcome_of: Final[Callable[[tuple[Any, ...]], ReadOutcome]] = partial(
    tuple.__new__, ReadOutcome
)


class Replica:
    __slots__ = (
        "bytes_out",
        "core",
        "flush_due_offset",
        "is_here",
        "key",
        "log",
        "min_in_sync_replicas",
        "rules",
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
        self.rules = rules
        self.min_in_sync_replicas = min_in_sync_replicas
        self.flush_due_offset: int | None = None
        # Whether the broker serves it, for whoever has found it before.
        self.is_here = False
        # What consumers were given, for whoever watches the broker.
        self.bytes_out = 0

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.core.high_watermark)

    def lead_or_follow(self, leadership: Leadership, now_ms: float) -> bool:
        """Applies the controller's decision to core and log; False when it is an old one."""
        epoch_before = self.core.leadership.leader_epoch
        if not self.core.apply(leadership, now_ms):
            return False
        if self.core.is_leader and leadership.leader_epoch > epoch_before:
            # A new leader notes its epoch at once, even before its first record (KIP-101).
            self.log.leader_epochs.begin(leadership.leader_epoch, self.log.log_end_offset)
            self.core.appended(self.log.log_end_offset)
        return True

    def append(self, batch: memoryview, acks: int, now_ms: int, in_transaction: bool) -> Appended:
        """Appends what was sent, and writes its offset and leader epoch into it. A refusal is an
        outcome, a failing disk raises StorageError."""
        core, log, rules = self.core, self.log, self.rules
        leadership = core.leadership
        if leadership.leader != core.broker_id:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and not core.has_enough_in_sync_replicas(self.min_in_sync_replicas):
            return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS)
        base_offset = log.log_end_offset
        append_time_ms = NO_TIMESTAMP
        try:
            header = validate_produce(batch, rules, now_ms)
            if not rules.is_plain:
                batch, header = fit_to_topic(batch, header, rules, now_ms)
                if header[ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
                    append_time_ms = now_ms
            if header[ATTRIBUTES] & TRANSACTIONAL_BIT and not in_transaction:
                return AppendOutcome(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            repeated = log.append(batch, header, leadership.leader_epoch, now_ms)
        except InvalidBatch as problem:
            return AppendOutcome(
                problem.error_code,
                record_errors=problem.record_errors,
                error_message=problem.text,
            )
        except AppendRefused as problem:
            return AppendOutcome(problem.error_code, error_message=str(problem))
        if repeated is None:
            self.appended()
            required_offset = log.log_end_offset
            acknowledgeable = core.high_watermark if acks == ACKS_ALL else core.log_end_offset
            if acknowledgeable >= required_offset and append_time_ms == NO_TIMESTAMP:
                return base_offset
        else:
            base_offset, append_time_ms = repeated.base_offset, repeated.timestamp
            required_offset = repeated.last_offset + 1
        return AppendOutcome(
            NO_ERROR,
            base_offset,
            append_time_ms,
            log.log_start_offset,
            required_offset,
            not self.is_acknowledgeable(required_offset, acks),
        )

    def in_full(self, outcome: Appended) -> AppendOutcome:
        """What became of an append that was made just now."""
        if not isinstance(outcome, int):
            return outcome
        log = self.log
        return AppendOutcome(
            NO_ERROR, outcome, NO_TIMESTAMP, log.log_start_offset, log.log_end_offset
        )

    def appended(self) -> None:
        """The log has grown: moves the high watermark, unless a flush has to come first."""
        log = self.log
        log_end_offset, flush_messages = log.log_end_offset, log.config.flush_messages
        if self.flush_due_offset is not None or (
            log_end_offset >= flush_messages
            and log_end_offset - log.sync.recovery_point >= flush_messages
        ):
            self.flush_due_offset = log_end_offset
        else:
            self.core.appended(log_end_offset)

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
        *,
        is_follower: bool,
        min_one_batch: bool,
        last_fetched_epoch: int = -1,
    ) -> ReadOutcome:
        core, log = self.core, self.log
        if core.leadership.leader != core.broker_id:
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
            records = log.read(
                fetch_offset, max_bytes, end_offset=end_offset, min_one_batch=min_one_batch
            )
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
            )
        )

    def read_for_follower(
        self,
        follower: int,
        broker_epoch: int,
        fetch: FollowerFetch,
        max_bytes: int,
        now_ms: float,
    ) -> ReadOutcome:
        """A follower's fetch: what it asks for says how far it is, unless its log has diverged."""
        fenced = self.core.fence(fetch.leader_epoch)
        if fenced is not NO_ERROR:
            return ReadOutcome(fenced)
        outcome = self.read(
            fetch.fetch_offset,
            max_bytes,
            Isolation.READ_UNCOMMITTED,
            is_follower=True,
            min_one_batch=True,
            last_fetched_epoch=fetch.last_fetched_epoch,
        )
        if outcome.error_code is not NO_ERROR or outcome.divergence is not None:
            return outcome
        if self.core.fetched_by(follower, fetch.fetch_offset, now_ms, broker_epoch):
            return outcome._replace(high_watermark=self.core.high_watermark)
        return outcome
