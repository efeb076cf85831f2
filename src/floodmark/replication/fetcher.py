"""Follows one leader: fetches its records and appends them to our replicas.

`replication.fetchers` keeps one per leader and assigns partitions to it. Each round is one fetch
request. `replication.follower` decides what to do with each partition's response, as in the
simulator. A failing partition pauses for a while, and the others continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias, TypeVar

from floodmark.clock import Clock
from floodmark.occurrences import Occurrences, repeated
from floodmark.records.batch import Buffer
from floodmark.records.errors import CorruptRecord
from floodmark.replication import following
from floodmark.replication.follower import (
    Append,
    BackOff,
    FindOffsets,
    FollowerAnswer,
    FollowerFetch,
    StartAt,
    Step,
    TruncateTo,
)
from floodmark.replication.following_session import (
    FollowerLimits,
    FollowingSession,
    Wanted,
)
from floodmark.replication.leader_offsets import LeaderOffsets, offsets_of
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import LogClosed, OffsetsOutOfOrder, StorageError
from floodmark.storage.truncations import Cut
from floodmark.vocabulary import TopicIdPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

logger = logging.getLogger(__name__)

T = TypeVar("T")

Ask: TypeAlias = Callable[[int, Any, str], Awaitable[Any]]
"""PORT: sends a message to a broker, over a connection for this purpose, and returns the response.
Raises OSError if there is none."""

Truncate: TypeAlias = Callable[[Sequence[Cut]], Awaitable[list[StorageError | None]]]
"""PORT: truncates logs off the loop. Done when it returns, even if cancelled."""

FIRST_REST_MS = 50
"""A leader that does not know yet that it leads is asked again soon. Each further failure doubles
the pause, up to `replica.fetch.backoff.ms`."""

BYTES_PER_TURN = 1 << 20
"""After copying this much, others get a turn of the loop."""


class FetcherSettings(NamedTuple):
    limits: FollowerLimits
    backoff_ms: int


class _Followed:
    """A partition that follows this leader. `due_ms` is when it may be fetched again."""

    __slots__ = ("due_ms", "failures", "is_in_sync", "leader_epoch", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.leader_epoch = replica.core.leadership.leader_epoch
        self.due_ms = 0.0
        self.failures = 0
        # Whether it had all committed records at the leader's last response.
        self.is_in_sync = False


class _Truncation(NamedTuple):
    """A truncation from this fetch.

    `copied` is to be appended afterwards, to a log that restarts.
    """

    followed: _Followed
    fetch: FollowerFetch
    cut: Cut
    copied: tuple[Append, Buffer] | None = None


class LeaderFetcher:
    def __init__(
        self,
        leader_id: int,
        broker_id: int,
        replicas: ReplicaManager,
        ask: Ask,
        truncate: Truncate,
        broker_epoch: Callable[[], int],
        clock: Clock,
        settings: FetcherSettings,
        purpose: str,
    ) -> None:
        self._purpose = purpose
        self._leader_id = leader_id
        self._broker_id = broker_id
        self._replicas = replicas
        self._ask = ask
        self._truncate = truncate
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._settings = settings
        self._session = FollowingSession(settings.limits)
        self._followed: dict[TopicIdPartition, _Followed] = {}
        # Partitions that the next request may have to name, and those that pause.
        self._dirty: set[TopicIdPartition] = set()
        self._resting: dict[TopicIdPartition, float] = {}
        self._news = asyncio.Event()
        # The task that waits for a response, and whether `unfollow` has cancelled it.
        self._asking: asyncio.Task[Any] | None = None
        self._is_called_off = False
        self._failures = 0
        self._troubles = Occurrences()
        self.before_round: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._followed)

    # Which partitions

    @property
    def is_asking(self) -> bool:
        """Whether a partition added now must wait for the next round."""
        return self._asking is not None

    def has(self, key: TopicIdPartition) -> bool:
        return key in self._followed

    def follow(self, key: TopicIdPartition, replica: Replica) -> None:
        """Starts following a partition, or notes a change of one already followed."""
        known = self._followed.get(key)
        leader_epoch = replica.core.leadership.leader_epoch
        if known is None or known.replica is not replica or known.leader_epoch != leader_epoch:
            self._followed[key] = _Followed(replica)
            self._resting.pop(key, None)
        self._dirty.add(key)
        self._news.set()

    def unfollow(self, key: TopicIdPartition) -> None:
        if self._followed.pop(key, None) is not None:
            self._resting.pop(key, None)
            self._dirty.add(key)
            self._news.set()
        if not self._followed and self._asking is not None and not self._is_called_off:
            # The response is not needed, and a dead broker may never send it.
            self._is_called_off = True
            self._asking.cancel()

    # Rounds

    async def one_round(self) -> None:
        """Sends one request, if there is something to fetch, and handles the response."""
        self.before_round()
        self._prepare()
        if not len(self._session):
            await self._wait_for_news(self._next_due_ms(None))
            return
        response = await self._fetch()
        if response is not None:
            await self._take(response)

    def _prepare(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._resting:
            rested = [key for key, due_ms in self._resting.items() if due_ms <= now_ms]
            for key in rested:
                del self._resting[key]
            self._dirty.update(rested)
        dirty, self._dirty = self._dirty, set()
        self._news.clear()
        for key in dirty:
            if self._is_held_back(key, now_ms):
                self._resting[key] = now_ms + self._replicas.quotas.follower.wait_ms(now_ms)
            wanted = None if key in self._resting else self._wanted(key)
            if wanted is None:
                self._session.drop(key)
            else:
                self._session.want(key, wanted)

    def _is_held_back(self, key: TopicIdPartition, now_ms: float) -> bool:
        """Whether the follower's throttle lets this partition wait (KIP-73)."""
        followed = self._followed.get(key)
        return (
            followed is not None
            and followed.replica.is_throttled_as_follower
            and not followed.is_in_sync
            and self._replicas.quotas.follower.is_exceeded(now_ms)
        )

    def _wanted(self, key: TopicIdPartition) -> Wanted | None:
        followed = self._followed.get(key)
        if followed is None:
            return None
        replica = followed.replica
        fetch = following.next_fetch(replica)
        if fetch is None or fetch.leader != self._leader_id:
            return None
        return Wanted(
            replica.key[0], fetch, replica.log.log_start_offset, replica.core.high_watermark
        )

    def _next_due_ms(self, otherwise: T) -> float | T:
        return min(self._resting.values(), default=otherwise)

    async def _wait_for_news(self, until_ms: float | None) -> None:
        timeout_s = None
        if until_ms is not None:
            timeout_s = max(0.0, until_ms - self._clock.monotonic_ms()) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _fetch(self) -> FetchResponse | None:
        # Partitions that pause must not wait for news of the others.
        rest_ms = self._next_due_ms(float("inf")) - self._clock.monotonic_ms()
        request = self._session.request(self._broker_id, self._broker_epoch(), max(rest_ms, 0) + 1)
        response: FetchResponse | None = None
        try:
            response = await self._ask_leader(request)
        except OSError as problem:
            self._tell(f"could not fetch from broker {self._leader_id}", str(problem))
        if response is not None and self._session.answered(response):
            self._failures = 0
            return response
        self._session.reset()
        # The leader may end a session, by a restart or an eviction: start another one immediately.
        if response is None or self._failures:
            rest_ms = self._rest_ms(self._failures)
            await self._wait_for_news(self._clock.monotonic_ms() + rest_ms)
        self._failures += 1
        return None

    async def _ask_leader(self, request: FetchRequest) -> FetchResponse | None:
        """Returns None if `unfollow` cancelled it."""
        self._asking = task = asyncio.current_task()
        try:
            response: FetchResponse = await self._send(request)
        except asyncio.CancelledError:
            # Like `asyncio.timeout`: somebody else may have cancelled the task, too.
            if not self._is_called_off or task is None or task.uncancel() > 0:
                raise
            return None
        finally:
            self._asking = None
            self._is_called_off = False
        return response

    def _send(self, message: Any) -> Awaitable[Any]:
        return self._ask(self._leader_id, message, self._purpose)

    # Responses

    async def _take(self, response: FetchResponse) -> None:
        truncations: list[_Truncation] = []
        lost: list[tuple[_Followed, FollowerFetch]] = []
        copied: list[Replica] = []
        unyielded_bytes = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                self._dirty.add(key)
                followed, wanted = self._followed.get(key), self._session.wanted(key)
                if followed is None or wanted is None or not followed.replica.is_here:
                    continue
                step = following.decide(followed.replica, wanted.fetch, _answer(data))
                if isinstance(step, FindOffsets):
                    lost.append((followed, wanted.fetch))
                elif isinstance(step, BackOff):
                    self._back_off(followed, step)
                else:
                    truncation = self._copy_or_cut(followed, wanted.fetch, step, data)
                    if truncation is not None:
                        truncations.append(truncation)
                    copied.append(followed.replica)
                unyielded_bytes += len(_records(data))
                if unyielded_bytes >= BYTES_PER_TURN:
                    unyielded_bytes = 0
                    await asyncio.sleep(0)
        if lost:
            truncations += await self._find_offsets(lost)
        if truncations:
            await self._cut(truncations)
        await self._until_synced(copied)

    def _copy_or_cut(
        self,
        followed: _Followed,
        fetch: FollowerFetch,
        step: Append | TruncateTo | StartAt,
        data: PartitionData,
    ) -> _Truncation | None:
        replica = followed.replica
        if not isinstance(step, Append):
            return _truncation(followed, fetch, step)
        records = _records(data)
        restart = following.restart_inside_a_batch(replica, records, step)
        if replica.is_throttled_as_follower and len(records):
            self._replicas.quotas.follower.record(len(records), self._clock.monotonic_ms())
        if restart is None:
            self._copy(followed, step, records)
            followed.is_in_sync = replica.log.log_end_offset >= data.high_watermark
            return None
        start_at, append = restart
        return _truncation(followed, fetch, start_at, (append, records))

    def _copy(self, followed: _Followed, step: Append, records: Buffer) -> None:
        replica = followed.replica
        try:
            following.append_as_follower(replica, records, step, self._clock.now_ms())
        except (CorruptRecord, OffsetsOutOfOrder) as problem:
            self._in_trouble(followed, f"invalid records from broker {self._leader_id}: {problem}")
        except (StorageError, OSError) as problem:
            self._replicas.disk_failed(replica, problem)
            self._rest(followed)
        else:
            followed.failures = 0
            self._replicas.copied(replica)

    def _back_off(self, followed: _Followed, step: BackOff) -> None:
        """Without an error, the response was to an outdated request."""
        if step.error_code is not ErrorCode.NONE:
            self._in_trouble(followed, f"broker {self._leader_id} responded {step.error_code.name}")

    async def _find_offsets(
        self, lost: Sequence[tuple[_Followed, FollowerFetch]]
    ) -> list[_Truncation]:
        """The start and end of the leader's logs, for partitions that were out of range."""
        asked = [(followed.replica.key, fetch.leader_epoch) for followed, fetch in lost]
        try:
            found = await offsets_of(self._broker_id, asked, self._send)
        except OSError as problem:
            self._tell(f"could not get offsets from broker {self._leader_id}", str(problem))
            found = {}
        truncations: list[_Truncation] = []
        for followed, fetch in lost:
            truncation = self._after_out_of_range(
                followed, fetch, found.get(followed.replica.key, ErrorCode.UNKNOWN_SERVER_ERROR)
            )
            if truncation is not None:
                truncations.append(truncation)
        return truncations

    def _after_out_of_range(
        self, followed: _Followed, fetch: FollowerFetch, found: LeaderOffsets | ErrorCode
    ) -> _Truncation | None:
        if isinstance(found, ErrorCode):
            self._in_trouble(followed, f"broker {self._leader_id} responded {found.name}")
            return None
        step = following.decide_after_out_of_range(followed.replica, fetch, *found)
        truncation = _truncation(followed, fetch, step)
        if truncation is None:
            # The leader's log has changed meanwhile. Pause, because it may change again.
            self._rest(followed)
        return truncation

    async def _cut(self, truncations: Sequence[_Truncation]) -> None:
        """Runs in a thread.

        If leadership changes or a partition is removed meanwhile, we notice.
        """
        current = [one for one in truncations if _is_current(one)]
        if not current:
            return
        with ExitStack() as stack:
            for one in current:
                stack.enter_context(self._replicas.truncating(one.followed.replica))
            problems = await self._truncate([one.cut for one in current])
            for one, problem in zip(current, problems, strict=True):
                self._was_cut(one, problem)

    def _was_cut(self, truncation: _Truncation, problem: StorageError | None) -> None:
        followed, fetch, cut, copied = truncation
        replica = followed.replica
        if not replica.is_here or isinstance(problem, LogClosed):
            return
        if problem is not None:
            self._replicas.disk_failed(replica, problem)
            self._rest(followed)
            return
        logger.info(
            "truncated %s-%d from %d to %d, where it diverges from the log of its leader %d",
            *replica.key,
            *(fetch.fetch_offset, cut.log.log_end_offset, self._leader_id),
        )
        replica.truncated()
        if copied is not None:
            self._copy(followed, *copied)
        self._replicas.changed(replica.key)

    async def _until_synced(self, copied: Sequence[Replica]) -> None:
        """Before the next fetch, which tells the leader that all earlier records are safe."""
        end_ms = self._clock.monotonic_ms() + self._settings.backoff_ms
        while unsynced := [r for r in copied if r.is_here and r.flush_due_offset is not None]:
            if self._clock.monotonic_ms() >= end_ms:
                # The disk may be full. Retry: the flush hook brings them back.
                for replica in unsynced:
                    self._replicas.copied(replica)
                return
            await self._wait_for_news(end_ms)
            self._news.clear()

    # Pauses

    def _in_trouble(self, followed: _Followed, text: str) -> None:
        topic, partition = followed.replica.key
        self._tell(f"{topic}-{partition} cannot be copied", text)
        self._rest(followed)

    def _tell(self, what: str, why: str) -> None:
        times = self._troubles.worth_telling(f"{what} {why}")
        if times:
            logger.info("%s%s: %s", what, repeated(times), why)

    def _rest(self, followed: _Followed) -> None:
        replica = followed.replica
        key = (replica.topic_id, replica.key[1])
        if self._followed.get(key) is followed:
            rest_ms = self._rest_ms(followed.failures)
            self._resting[key] = self._clock.monotonic_ms() + rest_ms
            followed.failures += 1

    def _rest_ms(self, failures: int) -> float:
        return float(min(FIRST_REST_MS << min(failures, 16), self._settings.backoff_ms))


def _records(data: PartitionData) -> Buffer:
    """A decoded response has them in one piece."""
    records = data.records
    return records if isinstance(records, bytes | bytearray | memoryview) else b""


def _answer(data: PartitionData) -> FollowerAnswer:
    answer = FollowerAnswer(
        ErrorCode.of(data.error_code),
        data.high_watermark,
        log_start_offset=data.log_start_offset,
    )
    diverging = data.diverging_epoch
    if diverging.epoch >= 0:
        return answer._replace(
            diverging_epoch=diverging.epoch, diverging_end_offset=diverging.end_offset
        )
    return answer


def _truncation(
    followed: _Followed,
    fetch: FollowerFetch,
    step: Step,
    copied: tuple[Append, Buffer] | None = None,
) -> _Truncation | None:
    log = followed.replica.log
    if isinstance(step, TruncateTo):
        return _Truncation(followed, fetch, Cut(log, step.offset), copied)
    if isinstance(step, StartAt):
        return _Truncation(followed, fetch, Cut(log, step.offset, keeps_start=False), copied)
    return None


def _is_current(truncation: _Truncation) -> bool:
    """Decided before a wait: it is valid only if nothing has changed since."""
    replica = truncation.followed.replica
    return replica.is_here and following.next_fetch(replica) == truncation.fetch
