"""A consumer's assigned partitions: positions, prefetched data, fetches in progress.

Belongs to `consumer.py`. Each leader has at most one long-polling fetch in progress, in the
background.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.silent_brokers import LeaderAsked
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.fetch_requests import PartitionAnswer, fetch
from floodmark.client.consumer.fetched_records import FetchedRecords
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec, list_offsets_once, offsets_or_raise
from floodmark.client.settings import ConsumerSettings
from floodmark.records.record import Record
from floodmark.vocabulary import NO_OFFSET
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Committed = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]


class AssignedPartition:
    """The consumer's state for one assigned partition."""

    __slots__ = (
        "failures",
        "fetched",
        "fetching",
        "high_watermark",
        "is_fresh",
        "last_stable_offset",
        "paused",
        "position",
        "retry_at_ms",
        "target",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        # No position was set yet: use the group's committed offset, if any.
        self.is_fresh = True
        # The target without a position: a timestamp, an OffsetSpec, or None for auto.offset.reset.
        self.target: int | None = None
        self.fetched: FetchedRecords | None = None
        self.fetching = False
        self.paused = False
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.failures = 0
        self.retry_at_ms = 0.0

    def go_to(self, *, position: int | None = None, target: int | None = None) -> None:
        self.is_fresh = False
        self.position = position
        self.target = target
        self.fetched = None


class Fetcher:
    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, committed: Committed | None
    ) -> None:
        """`committed` returns the group's committed offsets, if there is a group."""
        self.assigned: dict[TopicPartition, AssignedPartition] = {}
        # Set whenever a poll should look again.
        self.arrived = asyncio.Event()
        self.stale = False
        self._cluster = cluster
        self._settings = settings
        self._committed = committed
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._preparing: asyncio.Task[None] | None = None
        self._refresh_failures = 0
        # Brokers whose last fetch failed, to log each failure only once.
        self._failing: set[int] = set()
        self._error: BaseException | None = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on. Partitions that stay keep their position."""
        self.assigned = {p: self.assigned.get(p) or AssignedPartition() for p in partitions}

    def raise_error(self) -> None:
        """Raises any permanent error since the last poll."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset for a timestamp or an OffsetSpec, per partition."""
        listed = await offsets_or_raise(
            self._cluster, wanted, read_committed=self._settings.read_committed
        )
        return {partition: item.offset for partition, item in listed.items()}

    async def wait(self, until_ms: float) -> None:
        """Waits for a fetch to finish, at most until then."""
        left_ms = max(0.0, until_ms - self._cluster.clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self.arrived.wait()
        except TimeoutError:
            return

    def take(self, limit: int) -> dict[TopicPartition, list[Record]]:
        taken: dict[TopicPartition, list[Record]] = {}
        for partition, state in list(self.assigned.items()):
            if limit <= 0:
                break
            if state.fetched is None or state.paused:
                continue
            fetched = state.fetched
            try:
                records = fetched.take(limit)
            except KafkaError as error:
                if not taken:
                    raise _unreadable(partition, fetched.position, error) from error
                # The partitions before it move to the end, so this one is first next time.
                break
            finally:
                state.position = fetched.position
            if fetched.exhausted:
                state.fetched = None
            if records:
                taken[partition] = records
                limit -= len(records)
                # The next poll starts with the others, so no partition starves.
                self.assigned[partition] = self.assigned.pop(partition)
        return taken

    # --- positions ---

    def prepare(self) -> None:
        """Looks up missing positions and stale metadata in the background.

        A poll has a time limit, and partitions that are ready must not wait for the others.
        """
        if self._preparing is not None:
            if not self._preparing.done():
                return
            done, self._preparing = self._preparing, None
            done.result()
        if self._is_stale or self._without_position():
            self._preparing = asyncio.create_task(self._prepare(), name="floodmark-positions")
            self._preparing.add_done_callback(lambda _: self.arrived.set())

    async def _prepare(self) -> None:
        await self._find_positions()
        if self._is_stale:
            self.stale = False
            await self._refresh()

    async def find_position(self, partition: TopicPartition) -> None:
        """Resolves a committed offset, seek or auto.offset.reset into a position, or raises."""
        state = self.assigned[partition]
        await self._start_at_committed({partition: state})
        while state.position is None:
            target = self._target(partition, state)
            offset = (await self.offsets({partition: target}))[partition]
            if offset < 0:
                offset = (await self.offsets({partition: OffsetSpec.LATEST}))[partition]
            self._found(partition, state, target, offset)

    def _without_position(self) -> dict[TopicPartition, AssignedPartition]:
        """Those whose position is due for a lookup."""
        now_ms = self._cluster.clock.monotonic_ms()
        return {
            partition: state
            for partition, state in self.assigned.items()
            if state.position is None and state.retry_at_ms <= now_ms
        }

    async def _find_positions(self) -> None:
        """One attempt. A partition that fails pauses by itself: others need not wait for one that
        has no leader."""
        due = self._without_position()
        try:
            await self._start_at_committed(due)
        except KafkaError as error:
            if not error.retriable:
                raise
            waiting = [state for state in due.values() if state.is_fresh]
            if any(not state.failures for state in waiting):
                logger.warning("the committed offsets are not known yet: %s", error)
            for state in waiting:
                self._failed(state, error)
        lost = {p: s for p, s in due.items() if s.position is None and not s.is_fresh}
        wanted = {p: self._target(p, s) for p, s in lost.items()}
        listed = await self._list(wanted)
        behind_the_end = [p for p, offset in listed.items() if offset == NO_OFFSET]
        listed |= await self._list(dict.fromkeys(behind_the_end, OffsetSpec.LATEST))
        for partition, state in lost.items():
            offset = listed[partition]
            if isinstance(offset, KafkaError):
                if not state.failures:
                    logger.warning("the position of %s is not known yet: %s", partition, offset)
                self._failed(state, offset)
            else:
                self._found(partition, state, wanted[partition], offset)

    async def _list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """The offset or the error of each partition, which a response may leave out."""
        if not wanted:
            return {}
        listed = await list_offsets_once(
            self._cluster, wanted, read_committed=self._settings.read_committed
        )
        missing = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answers = {partition: listed.get(partition, missing) for partition in wanted}
        return {p: a if isinstance(a, KafkaError) else a.offset for p, a in answers.items()}

    def _found(
        self, partition: TopicPartition, state: AssignedPartition, target: int, offset: int
    ) -> None:
        # A seek in the meantime overrides the earlier lookup.
        if state.position is None and self._target(partition, state) == target:
            state.failures = 0
            state.go_to(position=offset)

    async def _start_at_committed(
        self, partitions: Mapping[TopicPartition, AssignedPartition]
    ) -> None:
        fresh = {p: s for p, s in partitions.items() if s.is_fresh}
        if not fresh:
            return
        offsets = {} if self._committed is None else await self._committed(fresh)
        for partition, state in fresh.items():
            if state.is_fresh:
                state.go_to(position=offsets.get(partition))

    def _target(self, partition: TopicPartition, state: AssignedPartition) -> int:
        if state.target is not None:
            return state.target
        policy = self._settings.auto_offset_reset
        if policy == "none":
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has no valid position and auto.offset.reset is none: seek first",
            )
        return OffsetSpec.EARLIEST if policy == "earliest" else OffsetSpec.LATEST

    # --- fetching ---

    @property
    def _is_stale(self) -> bool:
        """Whether a broker reported stale metadata, or it is time to refresh."""
        return self.stale or self._cluster.is_old(self._cluster.clock.monotonic_ms())

    def start_fetches(self) -> float:
        """Starts a fetch to every idle leader. Returns when to retry those that back off."""
        now_ms = self._cluster.clock.monotonic_ms()
        look_again_ms = math.inf
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition, state in self.assigned.items():
            busy = state.fetching or state.fetched is not None or state.paused
            if busy:
                continue
            if state.retry_at_ms <= now_ms and state.position is not None:
                try:
                    by_leader[self._cluster.leader_of(partition)][partition] = state.position
                except KafkaError as error:
                    self._failed(state, error)
            if state.retry_at_ms > now_ms:
                look_again_ms = min(look_again_ms, state.retry_at_ms)
        for leader, offsets in by_leader.items():
            if leader not in self._fetches:
                for partition in offsets:
                    self.assigned[partition].fetching = True
                task = asyncio.create_task(self._fetch(leader, offsets))
                self._fetches[leader] = task
                task.add_done_callback(partial(self._fetched, leader))
        return look_again_ms

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
            self._refresh_failures = 0
        except KafkaError as error:
            if not error.retriable:
                raise
            # The next poll refreshes again, after a pause.
            self._refresh_failures += 1
            await asyncio.sleep(self._cluster.backoff.delay_ms(self._refresh_failures) / 1000)

    async def _fetch(self, leader: int, offsets: Mapping[TopicPartition, int]) -> None:
        asked = {partition: self.assigned[partition] for partition in offsets}
        asked_leader = LeaderAsked(leader, offsets, self._cluster.view)
        try:
            connection = await self._cluster.leader_connection(leader, offsets, "fetch")
            with self._cluster.silent_brokers.request(
                asked_leader, connection, usual_ms=self._settings.fetch_max_wait_ms
            ):
                answers = await fetch(self._cluster, connection, offsets, self._settings)
            self._failing.discard(leader)
            for partition, state in asked.items():
                if partition in answers and state.position == offsets[partition]:
                    self._received(partition, state, answers[partition])
        except KafkaError as error:
            if leader not in self._failing:
                self._failing.add(leader)
                logger.warning("fetching from broker %d failed: %s", leader, error)
            for state in asked.values():
                self._failed(state, error)
        finally:
            for state in asked.values():
                state.fetching = False

    def _fetched(self, leader: int, task: asyncio.Task[None]) -> None:
        """Keeps an unexpected error for the next poll, which would otherwise fetch for ever."""
        del self._fetches[leader]
        if not task.cancelled():
            self._error = task.exception() or self._error
        self.arrived.set()

    def _received(
        self, partition: TopicPartition, state: AssignedPartition, answer: PartitionAnswer
    ) -> None:
        if answer.error is not None:
            self._refused(partition, state, answer.error)
            return
        state.failures = 0
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        if len(answer.records) and state.position is not None:
            state.fetched = FetchedRecords(
                answer.records,
                state.position,
                aborted=answer.aborted if self._settings.read_committed else (),
                check_crcs=self._settings.check_crcs,
            )

    def _refused(
        self, partition: TopicPartition, state: AssignedPartition, error: KafkaError
    ) -> None:
        if error.code == ErrorCode.CORRUPT_MESSAGE:
            # A producer may retry, but data corrupt on disk stays corrupt.
            self._error = _unreadable(partition, state.position, error)
            self._failed(state, error)
        elif error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._failed(state, error)
        elif self._settings.auto_offset_reset == "none":
            self._error = KafkaError(
                error.code,
                f"offset {state.position} of {partition} is out of range and "
                "auto.offset.reset is none: seek to a valid offset",
            )
        else:
            state.go_to()

    def _failed(self, state: AssignedPartition, error: KafkaError) -> None:
        """Schedules a retry after a pause, or keeps the error for the next poll."""
        if not error.retriable:
            self._error = error
            return
        state.failures += 1
        delay_ms = self._cluster.backoff.delay_ms(state.failures)
        state.retry_at_ms = self._cluster.clock.monotonic_ms() + delay_ms
        self.stale = self.stale or error.stale_metadata

    async def stop(self) -> None:
        tasks = [*self._fetches.values(), *([self._preparing] if self._preparing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A poll that still waits learns that the consumer is closed.
        self.arrived.set()


def _unreadable(partition: TopicPartition, offset: int | None, error: KafkaError) -> KafkaError:
    return KafkaError(
        error.code,
        f"{partition} cannot be read at offset {offset}: {error.text}; "
        "seek to a later offset to skip the damage",
    )
