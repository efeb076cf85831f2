"""The consumer: partitions assigned by hand, positions, and polls that return what was fetched.

For users, the CLI and pipelines. Each leader has at most one long-polling fetch under way, in the
background; `poll` hands out what has arrived and asks for more.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from floodmark.client.cluster import Cluster
from floodmark.client.errors import ClientClosed, KafkaError
from floodmark.client.fetched import FetchedRecords
from floodmark.client.fetching import PartitionAnswer, fetch
from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.client.settings import ConsumerSettings
from floodmark.client.view import TopicPartition
from floodmark.records.record import Header, Record
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class _Assigned:
    """What the consumer knows of one assigned partition."""

    __slots__ = (
        "failures",
        "fetched",
        "fetching",
        "high_watermark",
        "last_stable_offset",
        "paused",
        "position",
        "retry_at_ms",
        "target",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        # Where to go while there is no position: a timestamp or an OffsetSpec, None for the reset
        # policy.
        self.target: int | None = None
        self.fetched: FetchedRecords | None = None
        self.fetching = False
        self.paused = False
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.failures = 0
        self.retry_at_ms = 0.0

    def go_to(self, *, position: int | None = None, target: int | None = None) -> None:
        self.position = position
        self.target = target
        self.fetched = None


class Consumer:
    """Use it with `async with Consumer("127.0.0.1:9092") as consumer`."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | Cluster,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self.settings = settings or ConsumerSettings()
        self._owns_cluster = not isinstance(bootstrap, Cluster)
        self.cluster = (
            bootstrap if isinstance(bootstrap, Cluster) else Cluster(bootstrap, self.settings)
        )
        self._assigned: dict[TopicPartition, _Assigned] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        # Brokers whose last fetch failed: said once, not with every attempt.
        self._failing: set[int] = set()
        self._arrived = asyncio.Event()
        self._error: KafkaError | None = None
        self._stale = False
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.cluster.connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        await self._stop_fetches()
        if self._owns_cluster:
            await self.cluster.close()

    # --- assignment and positions ---

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._assigned)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; those that stay keep their position."""
        wanted = list(partitions)
        view = await self.cluster.topics_of({partition.topic for partition in wanted})
        for partition in wanted:
            if view.partition(partition) is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist"
                )
        self._assigned = {p: self._assigned.get(p) or _Assigned() for p in wanted}

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        view = await self.cluster.topics_of([topic])
        return [TopicPartition(topic, index) for index in sorted(view.topics[topic].partitions)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if offset < 0:
            raise ValueError(f"an offset is not negative, {offset} was given")
        self._state(partition).go_to(position=offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        for partition in partitions or self.assignment:
            self._state(partition).go_to(target=OffsetSpec.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        for partition in partitions or self.assignment:
            self._state(partition).go_to(target=OffsetSpec.LATEST)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """The first record at or after this time, or the end when there is none."""
        for partition in partitions or self.assignment:
            self._state(partition).go_to(target=timestamp_ms)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll would give."""
        state = self._state(partition)
        if state.position is None:
            await self._find_positions()
        assert state.position is not None
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._state(partition).paused = False

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """As the last fetch said; None before the first."""
        return self._state(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end that this consumer may see."""
        state = self._state(partition)
        end = state.last_stable_offset if self.settings.read_committed else state.high_watermark
        if end is None or state.position is None:
            return None
        return max(0, end - state.position)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The first offset at or after each time; -1 where there is none."""
        return await self._offsets(timestamps)

    # --- polling ---

    async def poll(
        self, timeout_ms: float = 500, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Records by partition as soon as there are some; nothing when the time is over."""
        limit = max_records or self.settings.max_poll_records
        deadline_ms = self.cluster.clock.monotonic_ms() + timeout_ms
        while True:
            self._check()
            self._arrived.clear()
            await self._find_positions()
            taken = self._take(limit)
            look_again_ms = await self._start_fetches()
            if taken or deadline_ms <= self.cluster.clock.monotonic_ms():
                return taken
            await self._wait(min(deadline_ms, look_again_ms))

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Every record as it comes, without end."""
        while True:
            for partition, records in (await self.poll()).items():
                for offset, timestamp, key, value, headers in records:
                    yield ConsumerRecord(*partition, offset, timestamp, key, value, headers)

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def _wait(self, until_ms: float) -> None:
        """For a fetch that ends, at most until then."""
        left_ms = max(0.0, until_ms - self.cluster.clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            return

    def _take(self, limit: int) -> dict[TopicPartition, list[Record]]:
        taken: dict[TopicPartition, list[Record]] = {}
        for partition, state in list(self._assigned.items()):
            if limit <= 0:
                break
            if state.fetched is None or state.paused:
                continue
            records = state.fetched.take(limit)
            state.position = state.fetched.position
            if state.fetched.exhausted:
                state.fetched = None
            if records:
                taken[partition] = records
                limit -= len(records)
                # The next poll begins with the others, so that none starves.
                self._assigned[partition] = self._assigned.pop(partition)
        return taken

    # --- positions ---

    def _state(self, partition: TopicPartition) -> _Assigned:
        state = self._assigned.get(partition)
        if state is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return state

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        listed = await offsets_or_raise(
            self.cluster, wanted, read_committed=self.settings.read_committed
        )
        return {partition: item.offset for partition, item in listed.items()}

    async def _find_positions(self) -> None:
        """Turn seeks to a time or an end, and the reset policy, into offsets."""
        lost = {p: s for p, s in self._assigned.items() if s.position is None}
        if not lost:
            return
        wanted = {p: self._target(p, s) for p, s in lost.items()}
        offsets = await self._offsets(wanted)
        behind_the_end = [partition for partition, offset in offsets.items() if offset < 0]
        if behind_the_end:
            offsets |= await self.end_offsets(behind_the_end)
        for partition, state in lost.items():
            # A seek in the meantime counts more than what was asked before it.
            if state.position is None and self._target(partition, state) == wanted[partition]:
                state.go_to(position=offsets[partition])

    def _target(self, partition: TopicPartition, state: _Assigned) -> int:
        if state.target is not None:
            return state.target
        policy = self.settings.auto_offset_reset
        if policy == "none":
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has no valid position and auto.offset.reset is none: seek first",
            )
        return OffsetSpec.EARLIEST if policy == "earliest" else OffsetSpec.LATEST

    # --- fetching ---

    async def _start_fetches(self) -> float:
        """Ask every leader that is not being asked; gives the time at which to try again what
        pauses after a failure.
        """
        now_ms = self.cluster.clock.monotonic_ms()
        if self._stale or self.cluster.is_old(now_ms):
            self._stale = False
            await self._refresh()
        look_again_ms = math.inf
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition, state in self._assigned.items():
            busy = state.fetching or state.fetched is not None or state.paused
            if busy or state.position is None:
                continue
            if state.retry_at_ms <= now_ms:
                try:
                    by_leader[self.cluster.leader_of(partition)][partition] = state.position
                except KafkaError as error:
                    self._failed(state, error)
            if state.retry_at_ms > now_ms:
                look_again_ms = min(look_again_ms, state.retry_at_ms)
        for leader, offsets in by_leader.items():
            if leader not in self._fetches:
                for partition in offsets:
                    self._assigned[partition].fetching = True
                self._fetches[leader] = asyncio.create_task(self._fetch(leader, offsets))
        return look_again_ms

    async def _refresh(self) -> None:
        try:
            await self.cluster.refresh()
        except KafkaError as error:
            if not error.retriable:
                raise

    async def _fetch(self, leader: int, offsets: Mapping[TopicPartition, int]) -> None:
        asked = {partition: self._assigned[partition] for partition in offsets}
        try:
            connection = await self.cluster.connection_to(leader, "fetch")
            answers = await fetch(self.cluster, connection, offsets, self.settings)
            self._failing.discard(leader)
            for partition, state in asked.items():
                if partition in answers and state.position == offsets[partition]:
                    self._received(partition, state, answers[partition])
        except KafkaError as error:
            if leader not in self._failing:
                self._failing.add(leader)
                logger.warning("broker %d gives no records now: %s", leader, error)
            for state in asked.values():
                self._failed(state, error)
        finally:
            for state in asked.values():
                state.fetching = False
            del self._fetches[leader]
            self._arrived.set()

    def _received(
        self, partition: TopicPartition, state: _Assigned, answer: PartitionAnswer
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
                aborted=answer.aborted if self.settings.read_committed else (),
                check_crcs=self.settings.check_crcs,
            )

    def _refused(self, partition: TopicPartition, state: _Assigned, error: KafkaError) -> None:
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._failed(state, error)
        elif self.settings.auto_offset_reset == "none":
            self._error = KafkaError(
                error.code,
                f"offset {state.position} of {partition} does not exist (any more) and "
                "auto.offset.reset is none: seek to an offset that does",
            )
        else:
            state.go_to()

    def _failed(self, state: _Assigned, error: KafkaError) -> None:
        """Worth another try after a pause, or an error for the next poll."""
        if not error.retriable:
            self._error = error
            return
        state.failures += 1
        delay_ms = self.cluster.backoff.delay_ms(state.failures)
        state.retry_at_ms = self.cluster.clock.monotonic_ms() + delay_ms
        self._stale = self._stale or error.stale_metadata

    async def _stop_fetches(self) -> None:
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
