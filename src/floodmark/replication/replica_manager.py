"""The partitions of this broker: append, read, wait.

The APIs come here with what a client asked for; the controller's decisions come here as deltas.
This is the shell around `Replica`s: it owns the purgatory and its timer, the flusher, and what
happens when a disk fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from floodmark.clock import Clock
from floodmark.occurrences import Occurrences
from floodmark.promise import Promise
from floodmark.records.batch import writable
from floodmark.records.errors import CorruptRecord
from floodmark.replication.fetching import Fetch, FetchLimits, ReplicaKey, Targets
from floodmark.replication.flusher import Flusher
from floodmark.replication.purgatory import Purgatory
from floodmark.replication.replica import Appended, AppendOutcome, ReadOutcome, Replica
from floodmark.replication.waiting import WaitingFetch, WaitingFetchOfOne, WaitingProduce
from floodmark.storage.errors import DiskFull, StorageError, TooManyFiles
from floodmark.wire.errors import NO_ERROR, ErrorCode

logger = logging.getLogger(__name__)


class ReplicaManager:
    def __init__(
        self,
        clock: Clock,
        executor: Executor,
        on_disk_failure: Callable[[Replica, StorageError | OSError], None],
    ) -> None:
        self._clock = clock
        self._replicas: dict[ReplicaKey, Replica] = {}
        self._offline: set[ReplicaKey] = set()
        self._on_disk_failure = on_disk_failure
        self._flusher = Flusher(executor, self._flushed, self.disk_failed)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = float("inf")
        self._refusals = Occurrences()
        # How many partitions have gone, for whoever keeps some in mind.
        self.removals = 0
        self.produces: Purgatory[ReplicaKey] = Purgatory()
        self.fetches: Purgatory[ReplicaKey] = Purgatory()

    # The partitions

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def replicas(self) -> list[Replica]:
        return list(self._replicas.values())

    @property
    def offline(self) -> frozenset[ReplicaKey]:
        return frozenset(self._offline)

    def is_offline(self, key: ReplicaKey) -> bool:
        return key in self._offline

    def find(self, key: ReplicaKey) -> Replica | None:
        return self._replicas.get(key)

    def add(self, replica: Replica) -> None:
        self._take_out(replica.key)
        self._replicas[replica.key] = replica
        replica.is_here = True
        self._offline.discard(replica.key)

    def remove(self, key: ReplicaKey) -> Replica | None:
        """Whoever waits for this partition learns that it is gone."""
        self._offline.discard(key)
        replica = self._take_out(key)
        self.changed(key)
        return replica

    def take_offline(self, keys: Iterable[ReplicaKey]) -> None:
        """Their files or their log folder failed: they answer KAFKA_STORAGE_ERROR from now on."""
        for key in keys:
            if self._take_out(key) is not None:
                self._offline.add(key)
                self.changed(key)

    def _take_out(self, key: ReplicaKey) -> Replica | None:
        replica = self._replicas.pop(key, None)
        if replica is not None:
            replica.is_here = False
            self.removals += 1
        return replica

    def mark_offline(self, key: ReplicaKey) -> None:
        """A partition that is ours but could not be opened."""
        self._offline.add(key)

    def missing(self, key: ReplicaKey) -> ErrorCode:
        """Why `find` found nothing."""
        if key in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # Append

    def append(
        self,
        key: ReplicaKey,
        records: memoryview | bytes,
        acks: int,
        in_transaction: bool = False,
    ) -> AppendOutcome:
        replica = self._replicas.get(key)
        if replica is None:
            return AppendOutcome(self.missing(key))
        return replica.in_full(self.append_to(replica, writable(records), acks, in_transaction))

    def append_to(
        self,
        replica: Replica,
        batch: memoryview,
        acks: int,
        in_transaction: bool = False,
    ) -> Appended:
        """To a partition that is here."""
        key = replica.key
        try:
            outcome = replica.append(batch, acks, self._clock.now_ms(), in_transaction)
        except (StorageError, OSError) as problem:
            self.disk_failed(replica, problem)
            return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(problem))
        if not isinstance(outcome, int) and outcome.error_code is not NO_ERROR:
            self._tell_refusal(key, outcome)
        elif replica.flush_due_offset is not None:
            self._flusher.request(replica)
        else:
            self.fetches.check(key)
        return outcome

    def _tell_refusal(self, key: ReplicaKey, outcome: AppendOutcome) -> None:
        times = self._refusals.worth_telling(f"{key} {outcome.error_code}")
        if times:
            logger.info(
                "refused a batch for %s-%d (%d times by now): %s %s",
                *key,
                times,
                outcome.error_code.name,
                outcome.error_message or "",
            )

    def acknowledged(
        self, outcomes: dict[ReplicaKey, AppendOutcome], acks: int, timeout_ms: int
    ) -> Promise[dict[ReplicaKey, AppendOutcome]]:
        """A promise of the final outcomes; kept already when all may be acknowledged now."""
        promise: Promise[dict[ReplicaKey, AppendOutcome]] = Promise()
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
        """The outcomes in the order of the targets, now or when there is enough to read."""
        fetch = Fetch(self, targets, limits)
        outcomes = fetch.read()
        if limits.max_wait_ms <= 0 or not targets or fetch.is_enough(outcomes):
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
        return promise

    def found_damage(self, replica: Replica, problem: CorruptRecord) -> None:
        if self._refusals.worth_telling(f"{replica.key} {problem}"):
            logger.error("%s-%d has changed on the disk: %s", *replica.key, problem)

    # Events

    def changed(self, key: ReplicaKey) -> None:
        """A partition's offsets or leadership changed by something else than a client's append."""
        self.produces.check(key)
        self.fetches.check(key)

    def grown(self, replica: Replica) -> None:
        """The broker itself appended to this log: a coordinator's record, a marker."""
        replica.appended()
        if replica.flush_due_offset is not None:
            self._flusher.request(replica)
        self.changed(replica.key)

    async def close(self) -> None:
        self.produces.expire_all()
        self.fetches.expire_all()
        if self._timer is not None:
            self._timer.cancel()
        await self._flusher.close()

    def _flushed(self, replica: Replica) -> None:
        self.changed(replica.key)

    def disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        """A full disk or too many open files pass, the log stands as it stood; any other failure
        takes the partition, or its folder."""
        if isinstance(problem, DiskFull | TooManyFiles):
            times = self._refusals.worth_telling(f"{replica.key} {problem}")
            if times:
                text = "%s-%d cannot be served now (%d times by now): %s"
                logger.error(text, *replica.key, times, problem)
            return
        logger.error("disk failure at %s-%d: %s", *replica.key, problem)
        self._on_disk_failure(replica, problem)

    def _schedule(self, deadline_ms: float) -> None:
        """One timer serves both purgatories: it stands at the earliest deadline known."""
        if deadline_ms >= self._timer_due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = deadline_ms
        delay_s = max(0.0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer, self._timer_due_ms = None, float("inf")
        now_ms = self._clock.monotonic_ms()
        for purgatory in (self.produces, self.fetches):
            purgatory.expire(now_ms)
            next_deadline_ms = purgatory.next_deadline_ms()
            if next_deadline_ms is not None:
                self._schedule(next_deadline_ms)
