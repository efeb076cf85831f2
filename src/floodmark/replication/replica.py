"""A partition of this broker: the pure `Partition` combined with its log on disk.

`replication.replica_manager` keeps one per partition. This module has what leaders and followers
share: leadership, meters, and the syncs that records wait for. The operations of leaders are in
`replication.leading`, those of followers in `replication.following`.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from floodmark.records.validation import ProduceRules
from floodmark.replication.outcomes import ACKS_ALL, Isolation
from floodmark.replication.partition import Leadership, Partition
from floodmark.storage.log.partition_log import PartitionLog

_READ_COMMITTED: Final = Isolation.READ_COMMITTED


class Replica:
    __slots__ = (
        "_counted_bytes",
        "_counted_offset",
        "_leader_high_watermark",
        "_leader_log_start_offset",
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
        # The leader epoch in which the controller told this broker to stop following.
        self.stopped_in_epoch = -1
        self.rules = rules
        core.min_in_sync_replicas = min_in_sync_replicas
        self.flush_due_offset: int | None = None
        # Arrived with records that must be synced first. The leader does not repeat them.
        self._leader_high_watermark = self._leader_log_start_offset = 0
        # Whether the broker still serves it. Code that caches a `Replica` must check this first.
        self.is_here = False
        # Whether its copying is measured against the broker's throttles (KIP-73).
        self.is_throttled_as_leader = self.is_throttled_as_follower = False
        # Bytes sent to consumers, for metrics.
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

    # Meters. They read what the log knows anyway, so they cost an append nothing.

    def count_from_here(self) -> None:
        """Resets the traffic counters."""
        self._counted_offset, self._counted_bytes = self.log.log_end_offset, self.log.appended_bytes
        self.bytes_out = 0

    def replace_log(self, log: PartitionLog) -> None:
        """Replaces the log by another one with the same records."""
        self._counted_bytes += log.appended_bytes - self.log.appended_bytes
        self.log = log

    @property
    def messages_in(self) -> int:
        # A truncation reduces both counters.
        return max(0, self.log.log_end_offset - self._counted_offset)

    @property
    def bytes_in(self) -> int:
        return max(0, self.log.appended_bytes - self._counted_bytes)

    @property
    def is_stopped(self) -> bool:
        return self.stopped_in_epoch == self.core.leadership.leader_epoch >= 0

    def lead_or_follow(self, leadership: Leadership, now_ms: float) -> bool:
        """Applies the controller's decision to core and log. Returns False if it is outdated."""
        is_new = leadership.is_new_after(self.core.leadership)
        if is_new:
            self._forget_unsynced()
        if not self.core.apply(leadership, now_ms):
            return False
        if is_new:
            if self.core.is_leader:
                # A new leader writes its epoch at once, even before its first record (KIP-101).
                self.log.leader_epochs.begin(leadership.leader_epoch, self.log.log_end_offset)
                self.core.leader_epoch_start_offset = self.log.log_end_offset
                self.appended()
            else:
                self.copied(self.core.high_watermark)
        return True

    def _forget_unsynced(self) -> None:
        """Called before a new leader epoch. Syncs of the previous epoch no longer count (see
        `flushed`), and records left unsynced by an unclean stop do not count yet."""
        self.flush_due_offset = None
        self._leader_high_watermark = self._leader_log_start_offset = 0
        if self._must_flush(self.log.log_end_offset):
            core = self.core
            core.log_end_offset = max(core.high_watermark, self.log.recovery_point)

    def appended(self) -> None:
        """The log has grown. Advances the high watermark, unless a flush must come first."""
        log = self.log
        log_end_offset = log.log_end_offset
        if (
            # Few topics flush by the number of records. The others skip the call.
            log_end_offset >= log.config.flush_messages or self.flush_due_offset is not None
        ) and self._must_flush(log_end_offset):
            self.flush_due_offset = log_end_offset
        else:
            self.core.appended(log_end_offset)

    def copied(self, leader_high_watermark: int, leader_log_start_offset: int = 0) -> None:
        """A follower's log has grown. Adopts its end and the leader's high watermark and log start,
        unless a flush must come first."""
        log_end_offset = self.log.log_end_offset
        if self._must_flush(log_end_offset):
            self.flush_due_offset = log_end_offset
            self._leader_high_watermark = leader_high_watermark
            self._leader_log_start_offset = leader_log_start_offset
        else:
            self._followed(log_end_offset, leader_high_watermark, leader_log_start_offset)

    def _followed(self, end_offset: int, high_watermark: int, log_start_offset: int) -> None:
        self.core.followed(end_offset, high_watermark)
        # Not beyond our high watermark, as the leader's log start is never beyond its own.
        self.log.advance_log_start(min(log_start_offset, self.core.high_watermark))
        producers = self.log.producers
        if producers.unreplicated:
            producers.forget_replicated(self.core.high_watermark)

    def truncated(self) -> None:
        """`LogManager` has truncated this follower's log, as `decide` asked for. Cancels pending
        syncs: their offsets may be gone, and the rest was synced before."""
        self.flush_due_offset = None
        self._leader_high_watermark = self._leader_log_start_offset = 0
        self.core.truncated(self.log.log_end_offset, self.log.log_start_offset)

    def _must_flush(self, log_end_offset: int) -> bool:
        log = self.log
        unflushed = log_end_offset - log.sync.recovery_point
        return self.flush_due_offset is not None or unflushed >= log.config.flush_messages

    def flushed(self, durable_end_offset: int, leader_epoch: int) -> None:
        """A sync requested in this leader epoch has finished.

        If the epoch has changed, the log may have been truncated and rewritten since, so the sync
        says nothing about its current contents.
        """
        core = self.core
        if core.leadership.leader_epoch != leader_epoch:
            return
        if self.flush_due_offset is not None and self.flush_due_offset <= durable_end_offset:
            self.flush_due_offset = None
        if core.is_leader:
            core.appended(durable_end_offset)
        else:
            self._followed(
                durable_end_offset, self._leader_high_watermark, self._leader_log_start_offset
            )

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
