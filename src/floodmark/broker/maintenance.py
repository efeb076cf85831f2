"""A broker's periodic tasks: flush, retention, checkpoints, expiring old producers.

`storage` makes the decisions. Blocking work runs in a thread, and walks over all partitions run in
slices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from floodmark.broker.coordinators import Coordination
from floodmark.broker.delayed_work import Deferred
from floodmark.broker.partitions import Partitions
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.cache import MetadataCache
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import LogClosed, LogDirFailure, StorageError
from floodmark.storage.log_manager import LogManager
from floodmark.storage.retention import segments_due
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

REPLICAS_PER_SLICE = 50
FLUSH_CHECK_INTERVAL_MS = 3_000
"""How often to check logs for a due flush: a scan of integers, nearly free."""


class Maintenance:
    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        replicas: ReplicaManager,
        partitions: Partitions,
        metadata: MetadataCache,
        coordination: Coordination,
        clock: Clock,
        executor: Executor,
        deferred: Deferred,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._partitions = partitions
        self._metadata = metadata
        self._coordination = coordination
        self._clock = clock
        self._executor = executor
        self._deferred = deferred
        self._tasks: list[asyncio.Task[None]] = []
        self._checkpointed: dict[TopicPartition, int] = {}
        self._jobs: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("log.flush.scheduler.interval.ms", self.flush_and_reopen),
            ("log.retention.check.interval.ms", self.retain),
            ("log.flush.offset.checkpoint.interval.ms", self.checkpoint_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", self.checkpoint_log_starts),
            ("replica.high.watermark.checkpoint.interval.ms", self.checkpoint_high_watermarks),
            ("producer.id.expiration.check.interval.ms", self.expire_producers),
        ]
        self._intervals_ms = {name: config.get_int(name) for name, _ in self._jobs}
        # A log with flush.ms needs a check at least that often, not at Kafka's default of "never"
        # for the scheduler.
        self._intervals_ms["log.flush.scheduler.interval.ms"] = min(
            self._intervals_ms["log.flush.scheduler.interval.ms"], FLUSH_CHECK_INTERVAL_MS
        )
        self._initial_delay_ms = config.get_int("log.initial.task.delay.ms")

    def start(self) -> None:
        for name, job in self._jobs:
            task = asyncio.create_task(self._repeat(job, self._intervals_ms[name]), name=name)
            self._tasks.append(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, job: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        # A broker that runs only minutes at a time must reach its retention too.
        delay_ms = min(interval_ms, self._initial_delay_ms)
        while True:
            await asyncio.sleep(delay_ms / 1000)
            delay_ms = interval_ms
            try:
                await job()
            except LogDirFailure as problem:
                self._partitions.fail_folder_of(problem)
            except (StorageError, OSError) as problem:
                logger.error("%s failed and will be retried: %s", job.__name__, problem)
            except Exception:
                logger.exception("bug in %s; it will be retried", job.__name__)

    async def flush_and_reopen(self) -> None:
        await self.flush()
        if await self._partitions.reopen(self._metadata.image):
            self._coordination.partitions_changed()

    async def flush(self) -> None:
        """Syncs logs whose flush.ms has passed, finished segments, and prepared file names, one by
        one."""
        now_ms = self._clock.now_ms()
        for replica in self._replicas.replicas:
            with self._durability_of(replica):
                if replica.log.flush_due(now_ms):
                    await self._in_thread(partial(replica.log.fsync, now_ms))
                elif replica.log.names_due(now_ms):
                    await self._in_thread(replica.log.sync_names)

    @contextmanager
    def _durability_of(self, replica: Replica) -> Iterator[None]:
        """What cannot be synced must no longer be acknowledged."""
        try:
            yield
        except LogClosed:
            pass  # deleted in the meantime, with its files
        except StorageError as problem:
            self._replicas.disk_failed(replica, problem)

    async def retain(self) -> None:
        """Hides what is due, makes the new log starts durable in one write, then removes."""
        is_any_due = False
        async for replica in self._in_slices():
            with self._trouble_of(replica):
                is_any_due |= self._hide_due(replica)
        if is_any_due:
            # A folder where this fails fails again below, for the log that it concerns.
            with suppress(StorageError):
                await self.checkpoint_log_starts()
        async for replica in self._in_slices():
            with self._trouble_of(replica):
                await self._retain_one(replica)

    def _hide_due(self, replica: Replica) -> bool:
        log = replica.log
        count = segments_due(log, self._clock.now_ms(), replica.core.high_watermark)
        if not count or log.is_truncating:
            return False
        kept = log.segments[count:]
        log.advance_log_start(kept[0].base_offset if kept else log.log_end_offset)
        return True

    async def _retain_one(self, replica: Replica) -> None:
        if self._replicas.find(replica.key) is not replica or replica.log.is_truncating:
            return  # deleted since this round began, or being truncated by another thread
        log, now_ms = replica.log, self._clock.now_ms()
        count = segments_due(log, now_ms, replica.core.high_watermark)
        if count:
            segments = log.detach_oldest(count, now_ms)
            retired = await self._in_thread(lambda: self._logs.retire(log, segments))
            logger.info("retention removed %d segments of %s-%d", len(retired), *replica.key)
            self._deferred.run_later(log.config.file_delete_delay_ms, retired.remove)

    @contextmanager
    def _trouble_of(self, replica: Replica) -> Iterator[None]:
        """A failure of one log must not affect the others."""
        try:
            yield
        except LogDirFailure as problem:
            self._partitions.fail_folder_of(problem)
        except LogClosed:
            pass  # deleted in the meantime, with its files
        except (StorageError, OSError) as problem:
            logger.error("%s-%d will be retried: %s", *replica.key, problem)

    async def checkpoint_recovery_points(self) -> None:
        await self._in_thread(self._logs.checkpoint_recovery_points)

    async def checkpoint_log_starts(self) -> None:
        await self._in_thread(self._logs.checkpoint_log_start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        high_watermarks = {r.key: r.core.high_watermark for r in self._replicas.replicas}
        if high_watermarks != self._checkpointed:
            await self._in_thread(lambda: self._logs.checkpoint_high_watermarks(high_watermarks))
            self._checkpointed = high_watermarks

    async def expire_producers(self) -> None:
        async for replica in self._in_slices():
            if not replica.log.is_truncating:
                replica.log.producers.expire(self._clock.now_ms())

    async def _in_slices(self) -> AsyncIterator[Replica]:
        for count, replica in enumerate(self._replicas.replicas, 1):
            yield replica
            if count % REPLICAS_PER_SLICE == 0:
                await asyncio.sleep(0)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
