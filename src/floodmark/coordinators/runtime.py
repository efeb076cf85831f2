"""Runs shards: load, append, replay, wait for the high watermark, respond, unload.

The shell of both coordinators: `coordinators.groups.service` and
`coordinators.transactions.service` own one each, and the broker reports which partitions it leads.
Everything happens on the loop. With one replica an append is committed immediately, so `submit` and
`query` respond without a task or a promise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from floodmark.clock import Clock
from floodmark.coordinators.loading import load_log
from floodmark.coordinators.ports import (
    CoordinatorError,
    CoordinatorLog,
    NotCoordinator,
    NotReadableYet,
)
from floodmark.coordinators.shard import Producer, Shard, TimerOperation, Timers, Write
from floodmark.coordinators.timers import TimerQueue
from floodmark.occurrences import Occurrences, repeated
from floodmark.patient_timer import PatientTimer
from floodmark.promise import Promise
from floodmark.records.compression import Compression
from floodmark.records.entries import encode_entries
from floodmark.records.errors import CorruptRecord
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import WireError

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard[Any])
T = TypeVar("T")

TIMER_RETRY_MS = 500
"""A timer whose records could not be appended (too few replicas, a full disk) retries."""

LOAD_RETRY_S = 1.0
"""How long to wait for file descriptors before a log is read again."""


class _Pending(Generic[T]):
    """A response that waits for the high watermark."""

    __slots__ = ("answer", "end_offset", "on_error", "promise", "then")

    def __init__(
        self,
        end_offset: int,
        answer: T,
        then: Callable[[CoordinatorError | None], None] | None,
        promise: Promise[T],
        on_error: Callable[[CoordinatorError], T],
    ) -> None:
        self.end_offset = end_offset
        self.answer = answer
        self.then = then
        self.promise = promise
        self.on_error = on_error

    def succeed(self) -> None:
        if self.then is not None:
            self.then(None)
        self.promise.set(self.answer)

    def fail(self, error: CoordinatorError) -> None:
        if self.then is not None:
            self.then(error)
        self.promise.set(self.on_error(error))


class _Loaded(Generic[S]):
    """A partition led here: its shard, and what waits for its log."""

    __slots__ = ("active", "last_written_offset", "load_task", "pending", "shard", "wait_task")

    def __init__(self, shard: S) -> None:
        self.shard = shard
        self.active = False
        self.last_written_offset = 0
        self.pending: deque[_Pending[Any]] = deque()
        self.load_task: asyncio.Task[None] | None = None
        self.wait_task: asyncio.Task[None] | None = None


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        make_shard: Callable[[int, Timers], S],
        *,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.log = log
        self._clock = clock
        self._make_shard = make_shard
        self._compression = compression
        self._loaded: dict[int, _Loaded[S]] = {}
        self._timers: TimerQueue[tuple[int, str], TimerOperation] = TimerQueue()
        self._timer: PatientTimer | None = None
        self._timer_due_ms = float("inf")
        self._refusals = Occurrences()

    # Partitions

    def load(self, partition: int) -> None:
        """This broker now leads the partition. Loading a partition again has no effect.

        Raises NotCoordinator, without loading anything, if the log does not exist after all.
        """
        if partition in self._loaded:
            return
        is_empty = self.log.log_end_offset(partition) == 0
        shard = self._make_shard(partition, _ShardTimers(self, partition))
        loaded = self._loaded[partition] = _Loaded(shard)
        if is_empty:
            self._activate(partition, loaded)
        else:
            loaded.load_task = asyncio.get_running_loop().create_task(self._load(partition, loaded))

    def unload(self, partition: int) -> None:
        """Leadership is lost: requests that wait are referred to the new coordinator."""
        loaded = self._loaded.pop(partition, None)
        if loaded is None:
            return
        for task in (loaded.load_task, loaded.wait_task):
            if task is not None:
                task.cancel()
        for key in self._timers.keys():  # noqa: SIM118 - a copy: cancelling changes the queue
            if key[0] == partition:
                self._timers.cancel(key)
        error = NotCoordinator()
        while loaded.pending:
            loaded.pending.popleft().fail(error)
        loaded.shard.unloaded()

    def close(self) -> None:
        for partition in list(self._loaded):
            self.unload(partition)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def active_partitions(self) -> list[int]:
        return [partition for partition, loaded in self._loaded.items() if loaded.active]

    def is_loading(self) -> bool:
        return any(not loaded.active for loaded in self._loaded.values())

    async def until_loaded(self) -> None:
        """For tests."""
        tasks = [loaded.load_task for loaded in self._loaded.values() if loaded.load_task]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _load(self, partition: int, loaded: _Loaded[S]) -> None:
        try:
            await self._replay_log(partition, loaded)
        except (CoordinatorError, CorruptRecord, WireError) as error:
            # Serving half of the state would be worse than serving none.
            logger.error(
                "%s-%d could not be loaded, so its groups or transactions are unavailable: %s. "
                "Without another replica, stop the broker and move folder %s-%d away to reset it",
                *(self.log.topic, partition, error, self.log.topic, partition),
            )
            self._loaded.pop(partition, None)
            return
        finally:
            loaded.load_task = None
        with contextlib.suppress(NotCoordinator):
            # Leadership may be lost before `unload` is called.
            self._activate(partition, loaded)

    async def _replay_log(self, partition: int, loaded: _Loaded[S]) -> None:
        """Starts over while the broker cannot open files: nothing else would load the partition
        again before its leadership changes."""
        while True:
            try:
                return await load_log(self.log.read(partition), loaded.shard, self._clock)
            except NotReadableYet as problem:
                times = self._refusals.worth_telling(f"{partition} {problem}")
                if times:
                    text = "%s-%d could not be loaded yet%s: %s"
                    logger.warning(text, self.log.topic, partition, repeated(times), problem)
                loaded.shard = self._make_shard(partition, _ShardTimers(self, partition))
                await asyncio.sleep(LOAD_RETRY_S)

    def _activate(self, partition: int, loaded: _Loaded[S]) -> None:
        loaded.last_written_offset = self.log.log_end_offset(partition)
        loaded.active = True
        loaded.shard.loaded(self._clock.now_ms())

    # Operations

    def shard(self, partition: int) -> S:
        """The active shard.

        Raises NotCoordinator or COORDINATOR_LOAD_IN_PROGRESS if there is none.
        """
        return self._active(partition).shard

    def submit(
        self,
        partition: int,
        handler: Callable[[S, int], Write[T]],
        on_error: Callable[[CoordinatorError], T],
    ) -> T | Promise[T]:
        """Runs a handler. Its response comes immediately if committed, otherwise as a promise.

        Any failure becomes a response through `on_error`: an exception of the handler, a failed
        append, or leadership lost while waiting.
        """
        try:
            loaded = self._active(partition)
            now_ms = self._clock.now_ms()
            write = handler(loaded.shard, now_ms)
            if write.records:
                self._append(partition, loaded, write, now_ms)
            if write.applied is not None:
                write.applied()
        except CoordinatorError as error:
            return on_error(error)
        return self._answer(partition, loaded, write.answer, write.then, on_error)

    def query(
        self,
        partition: int,
        handler: Callable[[S, int], T],
        on_error: Callable[[CoordinatorError], T],
    ) -> T | Promise[T]:
        """Runs a read-only handler. Everything it saw is committed when the response comes."""
        try:
            loaded = self._active(partition)
            answer = handler(loaded.shard, self._clock.now_ms())
        except CoordinatorError as error:
            return on_error(error)
        return self._answer(partition, loaded, answer, None, on_error)

    def marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """A marker was just appended to the partition, before anything else ran on the loop.

        While the partition loads, the marker is found in the log instead.
        """
        loaded = self._loaded.get(partition)
        if loaded is None or not loaded.active:
            return
        loaded.last_written_offset = self.log.log_end_offset(partition)
        loaded.shard.end_transaction(Producer(producer_id, producer_epoch), committed=committed)

    def _active(self, partition: int) -> _Loaded[S]:
        loaded = self._loaded.get(partition)
        if loaded is None:
            raise NotCoordinator()
        if not loaded.active:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return loaded

    def _append(self, partition: int, loaded: _Loaded[S], write: Write[T], now_ms: int) -> None:
        """Appends all records, or with `atomic=False` those before the first failure."""
        start, count = 0, len(write.records)
        while start < len(write.records):
            chosen = write.records[start : start + count]
            try:
                self._append_batch(partition, loaded, write, chosen, now_ms)
                start += count
            except CoordinatorError as error:
                is_too_large = error.error_code is ErrorCode.RECORD_LIST_TOO_LARGE
                if is_too_large and not write.atomic and count > 1:
                    count = (count + 1) // 2
                    continue
                if write.then is not None:
                    write.then(error)
                raise

    def _append_batch(
        self,
        partition: int,
        loaded: _Loaded[S],
        write: Write[T],
        chosen: Sequence[Any],
        now_ms: int,
    ) -> None:
        shard = loaded.shard
        producer = write.producer
        batch = encode_entries(
            map(shard.encode, chosen),
            now_ms,
            compression=self._compression,
            transactional_producer=producer,
        )
        if write.guarded_append is None:
            end_offset = self.log.append(partition, batch)
        else:
            end_offset = write.guarded_append(batch)
        loaded.last_written_offset = end_offset
        if write.replay:
            offset = end_offset - len(chosen)
            for record in chosen:
                shard.replay(record, offset, producer)
                offset += 1

    def _answer(
        self,
        partition: int,
        loaded: _Loaded[S],
        answer: T,
        then: Callable[[CoordinatorError | None], None] | None,
        on_error: Callable[[CoordinatorError], T],
    ) -> T | Promise[T]:
        end_offset = loaded.last_written_offset
        try:
            is_committed = not loaded.pending and self.log.high_watermark(partition) >= end_offset
        except CoordinatorError as error:
            if then is not None:
                then(error)
            return on_error(error)
        if is_committed:
            if then is not None:
                then(None)
            return answer
        promise: Promise[T] = Promise()
        loaded.pending.append(_Pending(end_offset, answer, then, promise, on_error))
        if loaded.wait_task is None:
            waiting = self._wait(partition, loaded)
            loaded.wait_task = asyncio.get_running_loop().create_task(waiting)
        return promise

    async def _wait(self, partition: int, loaded: _Loaded[S]) -> None:
        """One task per partition, while anything waits for its high watermark."""
        pending = loaded.pending
        try:
            while pending:
                try:
                    await self.log.committed(partition, pending[0].end_offset)
                    high_watermark = self.log.high_watermark(partition)
                except TimeoutError:
                    pending.popleft().fail(CoordinatorError(ErrorCode.REQUEST_TIMED_OUT))
                except CoordinatorError as error:
                    # Leadership is lost, so everything that waits fails.
                    while pending:
                        pending.popleft().fail(error)
                else:
                    if pending[0].end_offset > high_watermark:
                        # Written, but on too few replicas to be safe.
                        pending.popleft().fail(CoordinatorError(ErrorCode.NOT_ENOUGH_REPLICAS))
                    while pending and pending[0].end_offset <= high_watermark:
                        pending.popleft().succeed()
        finally:
            loaded.wait_task = None

    # Timers

    def schedule(
        self, partition: int, key: str, delay_ms: float, operation: TimerOperation
    ) -> None:
        """Runs `operation(shard, now_ms) -> Write` on the partition's shard after the delay."""
        # Clients set delays. A negative one would run before all others.
        deadline_ms = self._clock.monotonic_ms() + max(0, delay_ms)
        self._timers.schedule((partition, key), deadline_ms, operation)
        if deadline_ms < self._timer_due_ms:
            self._set_timer(deadline_ms)

    def cancel(self, partition: int, key: str) -> None:
        self._timers.cancel((partition, key))

    def is_scheduled(self, partition: int, key: str) -> bool:
        return (partition, key) in self._timers

    def run_timers(self, due_ms: float | None = None) -> None:
        """Runs due timers. Tests call this after they advance a virtual clock.

        A timer that reschedules itself without delay runs again only after all others: a call runs
        no more timers than there were at its start.
        """
        self._timer_due_ms = float("inf")
        if due_ms is None:
            due_ms = self._clock.monotonic_ms()
        try:
            for _ in range(len(self._timers)):
                due = self._timers.pop_due(due_ms)
                if due is None:
                    break
                (partition, key), operation = due
                self._run_timer(partition, key, operation)
        finally:
            # Even if one fails unexpectedly, the others must run.
            next_ms = self._timers.next_deadline_ms()
            if next_ms < self._timer_due_ms:
                self._set_timer(next_ms)

    def _run_timer(self, partition: int, key: str, operation: TimerOperation) -> None:
        def failed(error: CoordinatorError) -> None:
            if partition not in self._loaded or isinstance(error, NotCoordinator):
                return
            times = self._refusals.worth_telling(f"{partition} {error}")
            if times:
                text = "a timer of %s-%d could not write%s and will retry: %s"
                logger.warning(text, self.log.topic, partition, repeated(times), error)
            if not self.is_scheduled(partition, key):
                self.schedule(partition, key, TIMER_RETRY_MS, operation)

        self.submit(partition, operation, failed)

    def _set_timer(self, deadline_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = deadline_ms
        now_ms = self._clock.monotonic_ms
        self._timer = PatientTimer(deadline_ms - now_ms(), now_ms, self.run_timers)


class _ShardTimers:
    """`Timers` for one shard."""

    __slots__ = ("_partition", "_runtime")

    def __init__(self, runtime: CoordinatorRuntime[Any], partition: int) -> None:
        self._runtime = runtime
        self._partition = partition

    def schedule(self, key: str, delay_ms: float, operation: TimerOperation) -> None:
        self._runtime.schedule(self._partition, key, delay_ms, operation)

    def cancel(self, key: str) -> None:
        self._runtime.cancel(self._partition, key)

    def is_scheduled(self, key: str) -> bool:
        return self._runtime.is_scheduled(self._partition, key)
