"""The consumer: group or manual assignment, positions, polls, commits.

For users, the CLI and pipelines. `prefetcher.py` fetches in the background and `poll` returns what
has arrived. With a subscription, `group.py` handles group membership.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.committing import Committer
from floodmark.client.consumer.group import ConsumerGroup, RebalanceListener, Subscription
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    committed_offsets,
)
from floodmark.client.consumer.prefetcher import AssignedPartition, Fetcher
from floodmark.client.errors import ClientClosed, KafkaError
from floodmark.client.offsets import OffsetSpec
from floodmark.client.settings import ConsumerSettings
from floodmark.records.record import Header, Record
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

# Time limit for the final commit and leaving the group; shorter after a cancellation.
CLOSE_TIMEOUT_MS = 30_000
HURRIED_CLOSE_MS = 1_000


class ConsumerRecord(NamedTuple):
    """A record and where it was read. `timestamp` is in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


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
        has_group = self.settings.group_id is not None
        self._fetcher = Fetcher(
            self.cluster, self.settings, self._committed_positions if has_group else None
        )
        self._group: ConsumerGroup | None = None
        self._committer: Committer | None = None
        # For partitions whose polled records an iteration is still handing out: the offset up to
        # which they count as read, and the next offset to hand out.
        self._unread: dict[TopicPartition, int] = {}
        self._resume: dict[TopicPartition, int] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.cluster.connect()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        # A cancelled caller wants to leave, not wait for a broker that may be gone.
        cancelled = exc_type is not None and issubclass(exc_type, asyncio.CancelledError)
        await self.close(timeout_ms=HURRIED_CLOSE_MS if cancelled else CLOSE_TIMEOUT_MS)

    async def close(self, *, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commits if auto-commit is on, leaves the group, and stops."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._leave()
        except TimeoutError:
            logger.warning("the consumer closed without a final commit: no response in time")
        finally:
            await self._fetcher.stop()
            if self._owns_cluster:
                await self.cluster.close()

    async def _leave(self) -> None:
        if self._committer is not None:
            await self._committer.finish()
        if self._group is not None:
            await self._group.close()
        elif self._committer is not None:
            await self._committer.commit_before_leaving()

    # --- the group ---

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Reads these topics, or all whose full name matches the pattern, as a member of the group.

        Group membership advances during polls.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe to either topics or a pattern")
        subscription = Subscription(names, None if pattern is None else re.compile(pattern))
        if self._group is not None:
            self._group.resubscribe(subscription, listener)
            return
        if self._fetcher.assigned:
            raise ValueError("partitions are assigned manually: unsubscribe first")
        committer = self._required_committer()
        await self.cluster.connect()
        self._group = ConsumerGroup(
            self.cluster,
            self.settings,
            self._fetcher,
            subscription=subscription,
            listener=listener,
            before_revocation=committer.commit_before_leaving,
        )

    async def unsubscribe(self) -> None:
        """Leaves the group, or drops the manual assignment."""
        if self._group is not None:
            await self._group.close()
            self._group = None
        self._forget_iteration()
        self._fetcher.assign([])

    @property
    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction`."""
        if self._group is not None:
            return self._group.membership.metadata
        return GroupMetadata(self._required_group_id())

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commits these offsets for the group, or the positions of all assigned partitions."""
        await self._required_committer().commit(offsets)

    def commit_nowait(self, offsets: Offsets | None = None) -> asyncio.Task[None]:
        """The same without waiting. Failures are logged, and raised when the task is awaited."""
        return self._required_committer().commit_nowait(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets. Omits partitions without one."""
        return await committed_offsets(
            self.cluster, self._required_group_id(), list(partitions), require_stable=True
        )

    def _required_group_id(self) -> str:
        if self.settings.group_id is None:
            raise ValueError("the consumer has no group.id: set one to subscribe or commit")
        return self.settings.group_id

    def _required_committer(self) -> Committer:
        self._required_group_id()
        if self._committer is None:
            self._committer = Committer(
                self.cluster,
                self.settings,
                group=self._sender_of_commits,
                positions=self._consumed,
                on_refused=self._commit_refused,
            )
        return self._committer

    def _sender_of_commits(self) -> GroupMetadata | None:
        """None while the group has no such member: its partitions may belong to others by now."""
        if self._group is not None and not self._group.membership.has_joined:
            return None
        return self.group_metadata

    def _commit_refused(self, error: KafkaError, sender: GroupMetadata) -> None:
        if self._group is not None:
            self._group.commit_refused(error, sender)

    def _consumed(self) -> dict[TopicPartition, int]:
        """The offset up to which records were handed out."""
        positions = {p: s.position for p, s in self._fetcher.assigned.items()}
        return {
            partition: self._unread.get(partition, position)
            for partition, position in positions.items()
            if position is not None
        }

    async def _committed_positions(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return {p: item.offset for p, item in (await self.committed(partitions)).items()}

    # --- assignment and positions ---

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions currently assigned."""
        return list(self._fetcher.assigned)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on. Partitions that stay keep their position."""
        if self._group is not None:
            raise ValueError("the group assigns the partitions: unsubscribe before assigning")
        wanted = list(partitions)
        view = await self.cluster.topics_of({partition.topic for partition in wanted})
        for partition in wanted:
            if view.partition(partition) is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist"
                )
        self._take_back()
        self._fetcher.assign(wanted)
        if self.settings.group_id is not None:
            self._required_committer()

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions."""
        view = await self.cluster.topics_of([topic])
        return [TopicPartition(topic, index) for index in sorted(view.topics[topic].partitions)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Sets a partition's position. The next poll returns records from there."""
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        self._go_to(partition, position=offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves partitions, by default all assigned ones, to their first offset."""
        for partition in partitions or self.assignment:
            self._go_to(partition, target=OffsetSpec.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves partitions, by default all assigned ones, to their end."""
        for partition in partitions or self.assignment:
            self._go_to(partition, target=OffsetSpec.LATEST)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Seeks to the first record at or after this time, or to the end if there is none."""
        for partition in partitions or self.assignment:
            self._go_to(partition, target=timestamp_ms)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record a poll would return."""
        state = self._state(partition)
        if partition in self._resume:
            return self._resume[partition]
        if state.position is None:
            await self._fetcher.find_position(partition)
        assert state.position is not None
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops returning records of these partitions until `resume`. They stay assigned."""
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Returns records of paused partitions again."""
        for partition in partitions:
            self._state(partition).paused = False

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The value from the last fetch; None before the first."""
        return self._state(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of offsets between the position and the end visible to this consumer."""
        state = self._state(partition)
        end = state.last_stable_offset if self.settings.read_committed else state.high_watermark
        if end is None or state.position is None:
            return None
        return max(0, end - self._resume.get(partition, state.position))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._fetcher.offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each partition: the offset that the next record will get."""
        return await self._fetcher.offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The first offset at or after each time; -1 if there is none."""
        return await self._fetcher.offsets(timestamps)

    # --- polling ---

    async def poll(
        self, timeout_ms: float = 500, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Returns records by partition once there are some, or nothing after the timeout."""
        self._take_back()
        limit = max_records or self.settings.max_poll_records
        deadline_ms = self.cluster.clock.monotonic_ms() + timeout_ms
        while True:
            self._check()
            self._fetcher.arrived.clear()
            if self._committer is not None:
                self._committer.commit_if_due(self.cluster.clock.monotonic_ms())
            if self._group is not None:
                await self._group.poll()
            self._fetcher.prepare()
            # No await between taking and returning: cancelling a poll loses no records.
            taken = self._fetcher.take(limit)
            look_again_ms = self._fetcher.start_fetches()
            if taken:
                return taken
            if deadline_ms <= self.cluster.clock.monotonic_ms():
                # A caller that polls without waiting must still let the fetches run.
                await asyncio.sleep(0)
                return {}
            if self._group is not None:
                look_again_ms = min(look_again_ms, self._group.look_again_ms)
            await self._fetcher.wait(min(deadline_ms, look_again_ms))

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yields every record as it arrives, forever.

        A record counts as read, for commits, once the next one is requested.
        """
        while True:
            polled = await self.poll()
            self._unread = {partition: records[0].offset for partition, records in polled.items()}
            self._resume = dict(self._unread)
            for partition, records in polled.items():
                for offset, timestamp, key, value, headers in records:
                    if partition not in self._resume:
                        # After a seek or a concurrent poll, these records are outdated.
                        break
                    self._resume[partition] = offset + 1
                    yield ConsumerRecord(*partition, offset, timestamp, key, value, headers)
                    if partition in self._unread:
                        self._unread[partition] = offset + 1
                self._unread.pop(partition, None)
                self._resume.pop(partition, None)

    def _take_back(self) -> None:
        """Rewinds to the records that an iteration left behind, for example after `break`."""
        for partition, offset in self._resume.items():
            if partition in self._fetcher.assigned:
                self._fetcher.assigned[partition].go_to(position=offset)
        self._forget_iteration()

    def _forget_iteration(self) -> None:
        self._unread.clear()
        self._resume.clear()

    def _check(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._fetcher.raise_error()

    def _go_to(
        self, partition: TopicPartition, *, position: int | None = None, target: int | None = None
    ) -> None:
        self._unread.pop(partition, None)
        self._resume.pop(partition, None)
        self._state(partition).go_to(position=position, target=target)

    def _state(self, partition: TopicPartition) -> AssignedPartition:
        state = self._fetcher.assigned.get(partition)
        if state is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return state
