"""Moves partitions between this broker's log folders while serving them.

Used by AlterReplicaLogDirs, and by a start that finds an interrupted move. Moves one partition at a
time. A thread copies the log at up to `replica.alter.log.dirs.io.max.bytes.per.second`. When little
is left, the loop copies the rest and swaps the logs in one step, so no append can intervene.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TypeVar

from floodmark.broker.delayed_work import Deferred
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.records.batch import HEADER_BYTES, read_header
from floodmark.records.errors import CorruptRecord
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import OffsetsOutOfOrder, StorageError
from floodmark.storage.files import FileSlice
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_manager import LogManager
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

COPIED_AT_ONCE_BYTES = 1 << 20
COPIED_ON_THE_LOOP_BYTES = 256 << 10
PAUSE_S = 0.01
"""The pause before retrying to swap a log that is being truncated or flushed."""

T = TypeVar("T")


class _Changed(Exception):
    """The log was truncated, so the copy may hold records that the log no longer has."""


class _Unwanted(Exception):
    """The move is no longer wanted, or the partition is gone."""


class FolderMoves:
    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        executor: Executor,
        deferred: Deferred,
        at_once: int = 1,
    ) -> None:
        """`at_once` is how many partitions move at a time."""
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._executor = executor
        self._deferred = deferred
        self._at_once = at_once
        self._wanted: dict[TopicPartition, Path] = {}
        self._moving: set[TopicPartition] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self, key: TopicPartition, target: Path) -> None:
        """Moves a local partition. If it is already in the target folder, cancels its move."""
        log = self._logs.get(*key)
        if log is not None and log.directory.parent == target:
            self._wanted.pop(key, None)
            return
        self._wanted[key] = target
        running = sum(not task.done() for task in self._tasks)
        if running < min(self._at_once, len(self._wanted)):
            task = asyncio.create_task(self._run(), name="moves between log folders")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def resume(self) -> None:
        """Restarts moves that the last shutdown interrupted."""
        for key, target in self._logs.moves.interrupted.items():
            if self._replicas.find(key) is not None:
                self.request(key, target)
        self._logs.moves.interrupted.clear()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while (key := self._next()) is not None:
            target = self._wanted[key]
            self._moving.add(key)
            try:
                await self._move(key, target)
            except (StorageError, OSError, CorruptRecord, OffsetsOutOfOrder) as problem:
                logger.error("could not move %s-%d to %s: %s", *key, target, problem)
            except _Unwanted:
                logger.info("the move of %s-%d to %s is no longer wanted", *key, target)
            finally:
                self._moving.discard(key)
                if self._wanted.get(key) == target:
                    del self._wanted[key]

    def _next(self) -> TopicPartition | None:
        return next((key for key in self._wanted if key not in self._moving), None)

    async def _move(self, key: TopicPartition, target: Path) -> None:
        while True:
            replica = self._replicas.find(key)
            if replica is None:
                raise _Unwanted
            begin = partial(self._logs.begin_move, *key, target, self._clock.now_ms())
            future = await self._in_thread(begin)
            try:
                await _Move(self, replica, future, target).run()
                return
            except asyncio.CancelledError:
                # The broker is stopping. The files tell the next start to begin again.
                raise
            except _Changed:
                await self._abandon(future)
            except BaseException:
                await self._abandon(future)
                raise

    async def _abandon(self, future: PartitionLog) -> None:
        if self._is_copy(future):
            await self._in_thread(partial(self._logs.moves.abandon, future))

    def _is_copy(self, log: PartitionLog) -> bool:
        return self._logs.moves.futures.get((log.topic, log.partition)) is log

    def is_wanted(self, replica: Replica, future: PartitionLog, target: Path) -> bool:
        return (
            replica.is_here
            and self._wanted.get(replica.key) == target
            and self._logs.get(*replica.key) is replica.log
            and self._is_copy(future)
        )

    async def copied(self, size_bytes: int) -> None:
        quota = self._replicas.quotas.alter_log_dirs
        quota.record(size_bytes, self._clock.monotonic_ms())
        wait_ms = quota.wait_ms(self._clock.monotonic_ms())
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)

    def swapped(self, replica: Replica, future: PartitionLog) -> None:
        """Runs on the loop, in the step in which the copy becomes complete."""
        source = replica.log.directory.parent
        remove = self._logs.finish_move(future)
        replica.replace_log(future)
        self._deferred.run_later(future.config.file_delete_delay_ms, remove)
        logger.info("moved %s-%d from %s to %s", *replica.key, source, future.directory.parent)

    async def write_checkpoints(self) -> None:
        await self._in_thread(self._logs.checkpoint_log_start_offsets)
        await self._in_thread(self._logs.checkpoint_recovery_points)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Runs to completion even if the broker stops: the files must stay open."""
        job = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            await asyncio.wait([job])
            raise


class _Move:
    """One attempt. Raises `_Changed` if the log is truncated meanwhile."""

    def __init__(
        self, moves: FolderMoves, replica: Replica, future: PartitionLog, target: Path
    ) -> None:
        self._moves = moves
        self._replica = replica
        self._current = replica.log
        self._future = future
        self._target = target
        self._truncations = replica.log.sync.truncations

    async def run(self) -> None:
        while True:
            await self._catch_up()
            await self._moves.in_thread(lambda: self._future.fsync(self._moves.now_ms()))
            if self._swap():
                await self._moves.write_checkpoints()
                return
            await asyncio.sleep(PAUSE_S)

    def _check(self) -> None:
        if not self._moves.is_wanted(self._replica, self._future, self._target):
            raise _Unwanted
        if self._current.is_truncating or self._current.sync.truncations != self._truncations:
            raise _Changed

    async def _catch_up(self) -> None:
        while True:
            self._check()
            piece = self._next_piece(COPIED_AT_ONCE_BYTES)
            if piece is None:
                return
            data = await self._moves.in_thread(piece.read)
            self._check()
            await self._moves.in_thread(partial(self._append, data))
            await self._moves.copied(len(data))

    def _next_piece(self, max_bytes: int) -> FileSlice | None:
        current, future = self._current, self._future
        if future.log_end_offset < current.log_start_offset:
            # Retention outran the copy.
            raise _Changed
        return current.read(future.log_end_offset, max_bytes, end_offset=current.log_end_offset)

    def _append(self, data: bytes) -> None:
        future = self._future
        if future.log_start_offset == future.log_end_offset and len(data) >= HEADER_BYTES:
            first = read_header(data)
            if first.base_offset < future.log_end_offset:
                # After DeleteRecords, the log starts inside a batch.
                start_offset = future.log_start_offset
                future.truncate_fully_and_start_at(first.base_offset, self._moves.now_ms())
                future.append_as_follower(data, self._moves.now_ms())
                future.log_start_offset = start_offset
                return
        future.append_as_follower(data, self._moves.now_ms())

    def _swap(self) -> bool:
        """Runs without waiting: earlier appends went to the old log, later ones go to the new one.

        Never swaps during a flush, whose completion would refer to the wrong log. Everything synced
        in the old log must be synced in the new one.
        """
        self._check()
        if self._replica.flush_due_offset is not None:
            return False
        missing_bytes = self._current.size_bytes - self._future.size_bytes
        if missing_bytes > COPIED_ON_THE_LOOP_BYTES:
            return False
        while (piece := self._next_piece(COPIED_AT_ONCE_BYTES)) is not None:
            self._append(piece.read())
        if self._future.log_end_offset != self._current.log_end_offset:
            raise StorageError(f"{self._current.directory} could not be copied completely")
        if self._current.recovery_point > self._future.recovery_point:
            return False
        self._moves.swapped(self._replica, self._future)
        return True


def moves_at_once(config: BrokerConfig) -> int:
    """One per log folder, unless set."""
    name = "num.replica.alter.log.dirs.threads"
    return len(config.log_dirs) if config.get(name) is None else config.get_int(name)
