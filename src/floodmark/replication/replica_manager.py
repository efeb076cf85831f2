"""This broker's partitions: append, read, wait.

The APIs pass client requests here; the controller's decisions arrive as deltas. This is the shell
around `Replica`s: it owns the purgatory and its timer, the flusher, and the handling of disk
failures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from floodmark.clock import Clock
from floodmark.occurrences import Occurrences, repeated
from floodmark.promise import Promise
from floodmark.records.batch import writable
from floodmark.records.errors import CorruptRecord
from floodmark.replication import leading
from floodmark.replication.background import Background, Timer
from floodmark.replication.closest_replica import closest_replica
from floodmark.replication.fetch_reads import Fetch, FetchLimits, Targets
from floodmark.replication.flusher import Flusher
from floodmark.replication.follower_reads import FollowerReads
from floodmark.replication.outcomes import NOT_VALIDATED, AppendOutcome, DeepValidation, ReadOutcome
from floodmark.replication.partition import Leadership
from floodmark.replication.purgatory import Purgatory
from floodmark.replication.replica import Replica
from floodmark.replication.throttle import ReplicationQuotas
from floodmark.replication.waiting import (
    Deletion,
    WaitingDeletion,
    WaitingFetch,
    WaitingFetchOfOne,
    WaitingProduce,
)
from floodmark.steps import Unfinished, begin
from floodmark.storage.errors import DiskFull, StorageError, TooManyFiles, told_to_clients
from floodmark.storage.producers.transaction_guards import AppendGuard, Unguarded
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode

logger = logging.getLogger(__name__)

VALIDATED_AT_ONCE_MS = 2.0
"""Most batches are validated within this. A longer one is given back, to be validated in slices."""


class ReplicaManager:
    def __init__(
        self,
        clock: Clock,
        background: Background,
        on_disk_failure: Callable[[Replica, StorageError | OSError], None],
    ) -> None:
        self._clock = clock
        self._replicas: dict[TopicPartition, Replica] = {}
        self._offline: set[TopicPartition] = set()
        self._on_disk_failure = on_disk_failure
        self._background = background
        self._flusher = Flusher(background, self._flushed, self.disk_failed)
        self._timer: Timer | None = None
        self._timer_due_ms = float("inf")
        self._refusals = Occurrences()
        # The number of removed partitions, for code that caches some.
        self.removals = 0
        # Called with each removed partition, for code that keeps its counts.
        self.on_removed: Callable[[Replica], None] | None = None
        # Called when a partition may need to be fetched from another leader or none: its leadership
        # changed, it was removed, or a flush it waited for has ended.
        self.on_following_changed: Callable[[Replica], None] | None = None
        # Called with each partition fetched by a follower that is not in sync.
        self.on_candidate: Callable[[Replica, int], None] | None = None
        # Whether this broker may have lost leadership without knowing; None if it leads alone.
        self.in_doubt: Callable[[], bool] | None = None
        # The rack of a live broker; None if all consumers read from leaders.
        self.rack_of: Callable[[int], str | None] | None = None
        # Whether the cluster has the partition, on this broker or another.
        self.is_in_cluster: Callable[[TopicPartition], bool] = lambda _: False
        # Called when a partition goes offline or comes back.
        self.on_offline_changed: Callable[[], None] = lambda: None
        # Called when a decision of the controller takes effect late: see `truncating`.
        self.on_late_decision: Callable[[], None] = lambda: None
        # Decisions of the controller that arrived during a truncation.
        self._postponed: dict[Replica, Leadership] = {}
        self.isr_shrinks = self.isr_expands = 0
        self.quotas = ReplicationQuotas()
        # When a write last found the disk full, and the error text.
        self.disk_full: tuple[float, str] | None = None
        self.produces: Purgatory[TopicPartition] = Purgatory()
        self.fetches: Purgatory[TopicPartition] = Purgatory()
        self.deletions: Purgatory[TopicPartition] = Purgatory()

    # The partitions

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def replicas(self) -> list[Replica]:
        return list(self._replicas.values())

    @property
    def offline(self) -> frozenset[TopicPartition]:
        return frozenset(self._offline)

    def is_offline(self, key: TopicPartition) -> bool:
        return key in self._offline

    def find(self, key: TopicPartition) -> Replica | None:
        return self._replicas.get(key)

    def add(self, replica: Replica) -> None:
        self._take_out(replica.key)
        self._replicas[replica.key] = replica
        replica.is_here = True
        if replica.key in self._offline:
            self._offline.discard(replica.key)
            self.on_offline_changed()

    def remove(self, key: TopicPartition) -> Replica | None:
        """Operations that wait for this partition learn that it is gone."""
        self._offline.discard(key)
        replica = self._take_out(key)
        self.changed(key)
        return replica

    def take_offline(self, keys: Iterable[TopicPartition]) -> None:
        """Their files or log folder failed: they respond with KAFKA_STORAGE_ERROR from now on."""
        for key in keys:
            if self._take_out(key) is not None:
                self.mark_offline(key)
                self.changed(key)

    def _take_out(self, key: TopicPartition) -> Replica | None:
        replica = self._replicas.pop(key, None)
        if replica is not None:
            replica.is_here = False
            self.removals += 1
            if self.on_removed is not None:
                self.on_removed(replica)
            self._following_changed(replica)
        return replica

    def mark_offline(self, key: TopicPartition) -> None:
        """Marks a partition of ours that cannot be used."""
        if key not in self._offline:
            self._offline.add(key)
            self.on_offline_changed()

    def missing(self, key: TopicPartition) -> ErrorCode:
        """Why `find` found nothing.

        Clients that still know this broker as the leader must look for the new one; only a topic
        that is gone is unknown.
        """
        if key in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.is_in_cluster(key):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # Append

    def append(
        self,
        key: TopicPartition,
        records: memoryview | bytes,
        acks: int,
        guard: AppendGuard | None = None,
        validation: DeepValidation | None = None,
    ) -> AppendOutcome:
        replica = self._replicas.get(key)
        if replica is None:
            return AppendOutcome(self.missing(key))
        return self.append_to(replica, writable(records), acks, guard, validation)

    def append_to(
        self,
        replica: Replica,
        batch: memoryview,
        acks: int,
        guard: AppendGuard | None = None,
        validation: DeepValidation | None = None,
    ) -> AppendOutcome:
        """To a partition that is here. NOT_VALIDATED for a batch that takes long to validate."""
        if self.in_doubt is not None and self.in_doubt():
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        now_ms = self._clock.now_ms()
        try:
            outcome = leading.append(replica, batch, acks, now_ms, guard, validation)
            if outcome is NOT_VALIDATED and validation is None:
                steps = leading.validating(replica, batch, now_ms)
                begun = begin(steps, self._clock.monotonic_ms, VALIDATED_AT_ONCE_MS)
                if not isinstance(begun, Unfinished):
                    outcome = leading.append(replica, batch, acks, now_ms, guard, begun)
        except (StorageError, OSError) as problem:
            return self._not_stored(replica, problem)
        if outcome[0] is not NO_ERROR:
            if outcome is not NOT_VALIDATED:
                self._tell_refusal(replica.key, outcome)
        elif replica.flush_due_offset is not None:
            self._flusher.request(replica)
            if replica.core.followers:
                # Followers copy while we sync.
                self.fetches.check(replica.key)
        elif self.fetches.watchers:
            self.fetches.check(replica.key)
        return outcome

    def append_own(
        self,
        key: TopicPartition,
        batch: bytearray,
        guard: AppendGuard = Unguarded.NOT_CHECKED,
        transaction_version: int = 0,
    ) -> AppendOutcome:
        """For this broker's coordinators: their records and transaction markers."""
        replica = self._replicas.get(key)
        if replica is None:
            return AppendOutcome(self.missing(key))
        try:
            outcome = leading.append_own(
                replica, batch, self._clock.now_ms(), guard, transaction_version
            )
        except (StorageError, OSError) as problem:
            return self._not_stored(replica, problem)
        if outcome.error_code is NO_ERROR:
            self._flush_if_due(replica)
            self.changed(key)
        return outcome

    def _not_stored(self, replica: Replica, problem: StorageError | OSError) -> AppendOutcome:
        self.disk_failed(replica, problem)
        text = told_to_clients(problem)
        return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=text)

    def _tell_refusal(self, key: TopicPartition, outcome: AppendOutcome) -> None:
        times = self._refusals.worth_telling(f"{key} {outcome.error_code}")
        if times:
            logger.info(
                "refused a batch for %s-%d%s: %s %s",
                *key,
                repeated(times),
                outcome.error_code.name,
                outcome.error_message or "",
            )

    def acknowledged(
        self, outcomes: dict[TopicPartition, AppendOutcome], acks: int, timeout_ms: int
    ) -> Promise[dict[TopicPartition, AppendOutcome]]:
        """A promise of the final outcomes, already fulfilled if all can be acknowledged now."""
        promise: Promise[dict[TopicPartition, AppendOutcome]] = Promise()
        operation = WaitingProduce(outcomes, acks, self.find, promise)
        if operation.is_done():
            promise.set(outcomes)
        else:
            deadline_ms = self._clock.monotonic_ms() + timeout_ms
            promise.on_abandoned = self.produces.watch(operation, outcomes, deadline_ms)
            self._schedule(deadline_ms)
        return promise

    # Fetch

    def fetch(
        self, targets: Targets, limits: FetchLimits
    ) -> list[ReadOutcome] | Promise[list[ReadOutcome]]:
        """The outcomes in the order of the targets, now or once there is enough to read."""
        if limits.replica_id < 0:
            fetch = Fetch(self, targets, limits)
            outcomes = fetch.read()
        else:
            fetch, outcomes = self._read_for_follower(targets, limits)
        if limits.max_wait_ms <= 0 or not targets or fetch.is_enough(outcomes):
            self._measure(targets, limits, outcomes)
            return outcomes
        promise: Promise[list[ReadOutcome]] = Promise()
        operation = (
            WaitingFetchOfOne(fetch, promise)
            if len(targets) == 1
            else WaitingFetch(fetch, outcomes, promise)
        )
        deadline_ms = self._clock.monotonic_ms() + limits.max_wait_ms
        promise.on_abandoned = self.fetches.watch(operation, fetch.keys, deadline_ms)
        self._schedule(deadline_ms)
        if limits.replica_id >= 0 and self.quotas.leader.is_limited:
            return promise.map(partial(self._measure, targets, limits))
        return promise

    def _is_over_leader_quota(self) -> bool:
        return self.quotas.leader.is_exceeded(self._clock.monotonic_ms())

    def _measure(
        self, targets: Targets, limits: FetchLimits, outcomes: list[ReadOutcome]
    ) -> list[ReadOutcome]:
        """Counts what a follower gets of throttled replicas, even while it is in sync (KIP-73)."""
        if limits.replica_id < 0 or not self.quotas.leader.is_limited:
            return outcomes
        size_bytes = 0
        for (key, _), outcome in zip(targets, outcomes, strict=True):
            replica = None if key is None else self._replicas.get(key)
            if replica is not None and replica.is_throttled_as_leader:
                size_bytes += outcome.size_bytes
        if size_bytes:
            self.quotas.leader.record(size_bytes, self._clock.monotonic_ms())
        return outcomes

    def _read_for_follower(
        self, targets: Targets, limits: FetchLimits
    ) -> tuple[Fetch, list[ReadOutcome]]:
        """A follower's fetch shows its progress.

        That may acknowledge produces and let the follower join the in-sync replicas.
        """
        follower = FollowerReads(
            limits.replica_id,
            limits.replica_epoch,
            self._clock.monotonic_ms(),
            self._is_over_leader_quota,
            tells_high_watermark=self.rack_of is not None,
        )
        fetch = Fetch(self, targets, limits, follower)
        outcomes = fetch.read()
        follower.wait()
        for replica in follower.advanced:
            self.changed(replica.key)
        if self.on_candidate is not None:
            for replica in follower.candidates:
                self.on_candidate(replica, limits.replica_id)
        return fetch, outcomes

    def closest(self, replica: Replica, rack: str, fetch_offset: int) -> int | None:
        """The broker a consumer in this rack should read from; None for this broker."""
        if self.rack_of is None:
            return None
        return closest_replica(replica.core, rack, fetch_offset, self.rack_of)

    # Deletion

    def deleted(
        self,
        deletions: dict[TopicPartition, Deletion],
        is_live: Callable[[int], bool],
        timeout_ms: int,
    ) -> dict[TopicPartition, Deletion] | Promise[dict[TopicPartition, Deletion]]:
        """After the leader has deleted: the outcomes, now or once all live replicas have."""
        promise: Promise[dict[TopicPartition, Deletion]] = Promise()
        operation = WaitingDeletion(deletions, self.find, is_live, promise)
        if operation.is_done():
            return deletions
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        promise.on_abandoned = self.deletions.watch(operation, deletions, deadline_ms)
        self._schedule(deadline_ms)
        return promise

    def found_damage(self, replica: Replica, problem: CorruptRecord) -> None:
        if self._refusals.worth_telling(f"{replica.key} {problem}"):
            logger.error("%s-%d has changed on the disk: %s", *replica.key, problem)

    # Events

    def changed(self, key: TopicPartition) -> None:
        """A partition's offsets or leadership changed, other than by a client's append."""
        self.produces.check(key)
        self.fetches.check(key)
        self.deletions.check(key)

    def lead_or_follow(self, replica: Replica, leadership: Leadership) -> None:
        """Applies the controller's decision on who leads.

        Nobody may append to a log during a truncation, so the decision then takes effect at its
        end.
        """
        if replica.log.is_truncating:
            known = self._postponed.get(replica)
            if known is None or _epochs(known) < _epochs(leadership):
                self._postponed[replica] = leadership
            return
        before = replica.core.leadership
        if replica.lead_or_follow(leadership, self._clock.monotonic_ms()):
            self._count_isr_change(replica, before)
            self._flush_if_due(replica)
            self.changed(replica.key)
            if (before.leader, before.leader_epoch) != (
                leadership.leader,
                leadership.leader_epoch,
            ):
                self._following_changed(replica)

    def stop_following(self, key: TopicPartition, leader_epoch: int) -> None:
        """This broker is about to stop, so it fetches no more until there is a new leader epoch. A
        negative epoch means the current one."""
        replica = self._replicas.get(key)
        if replica is None or replica.core.is_leader:
            return
        if leader_epoch < 0 or leader_epoch >= replica.core.leadership.leader_epoch:
            replica.stopped_in_epoch = replica.core.leadership.leader_epoch
            self._following_changed(replica)

    @contextmanager
    def truncating(self, replica: Replica) -> Iterator[None]:
        """Wraps a thread's truncation of a followed partition's log."""
        replica.log.is_truncating = True
        try:
            yield
        finally:
            replica.log.is_truncating = False
            postponed = self._postponed.pop(replica, None)
            if postponed is not None and replica.is_here:
                self.lead_or_follow(replica, postponed)
                self.on_late_decision()
            # Another fetcher may have taken it over meanwhile, and has let it wait.
            self._following_changed(replica)

    def _following_changed(self, replica: Replica) -> None:
        if self.on_following_changed is not None:
            self.on_following_changed(replica)

    def _count_isr_change(self, replica: Replica, before: Leadership) -> None:
        now = replica.core.leadership
        if now.leader == before.leader == replica.core.broker_id:
            members, members_before = len(now.in_sync_replicas), len(before.in_sync_replicas)
            self.isr_shrinks += members < members_before
            self.isr_expands += members > members_before

    def copied(self, replica: Replica) -> None:
        """This broker appended records fetched from a partition's leader."""
        self._flush_if_due(replica)
        self.changed(replica.key)

    def _flush_if_due(self, replica: Replica) -> None:
        if replica.flush_due_offset is not None:
            self._flusher.request(replica)

    async def close(self) -> None:
        self.produces.expire_all()
        self.fetches.expire_all()
        self.deletions.expire_all()
        if self._timer is not None:
            self._timer.cancel()
        await self._background.drain()

    def _flushed(self, replica: Replica) -> None:
        self.changed(replica.key)
        if not replica.core.is_leader:
            self._following_changed(replica)

    def disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        """A full disk or too many open files are temporary and leave the log intact.

        Any other failure takes the partition or its folder offline.
        """
        if isinstance(problem, DiskFull):
            self.found_disk_full(problem)
        if isinstance(problem, DiskFull | TooManyFiles):
            times = self._refusals.worth_telling(f"{replica.key} {problem}")
            if times:
                text = "%s-%d is temporarily unavailable%s: %s"
                logger.error(text, *replica.key, repeated(times), problem)
            return
        logger.error("disk failure at %s-%d: %s", *replica.key, problem)
        self._on_disk_failure(replica, problem)

    def found_disk_full(self, problem: DiskFull) -> None:
        self.disk_full = self._clock.monotonic_ms(), str(problem)

    def _schedule(self, deadline_ms: float) -> None:
        """One timer serves all purgatories, set to the earliest known deadline."""
        if deadline_ms >= self._timer_due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = deadline_ms
        delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
        self._timer = self._background.call_later(delay_ms, self._expire)

    def _expire(self) -> None:
        self._timer, self._timer_due_ms = None, float("inf")
        now_ms = self._clock.monotonic_ms()
        for purgatory in (self.produces, self.fetches, self.deletions):
            purgatory.expire(now_ms)
            next_deadline_ms = purgatory.next_deadline_ms()
            if next_deadline_ms is not None:
                self._schedule(next_deadline_ms)


def _epochs(leadership: Leadership) -> tuple[int, int]:
    return leadership.leader_epoch, leadership.partition_epoch
