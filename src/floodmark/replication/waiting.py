"""The operations that wait in purgatory: produces and deletions for followers, fetches for data.

Created by `replication.replica_manager`. Each holds a promise for a parked request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from floodmark.promise import Promise
from floodmark.replication.fetch_reads import ENDS_THE_WAIT, Fetch
from floodmark.replication.outcomes import ACKS_ALL, AppendOutcome, ReadOutcome
from floodmark.replication.replica import Replica
from floodmark.vocabulary import NO_OFFSET, TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode


class _Outcome(Protocol):
    @property
    def error_code(self) -> ErrorCode: ...


Settled = TypeVar("Settled", bound=_Outcome)


class _WaitingForEach(Generic[Settled]):
    """Done when every partition that was not refused immediately is settled.

    `_settle` removes a partition from `_open` once its outcome is final.
    """

    def __init__(
        self,
        outcomes: dict[TopicPartition, Settled],
        find: Callable[[TopicPartition], Replica | None],
        promise: Promise[dict[TopicPartition, Settled]],
    ) -> None:
        self._outcomes = outcomes
        self._find = find
        self._promise = promise
        self._open = {k for k, outcome in outcomes.items() if outcome.error_code is NO_ERROR}

    def is_done(self) -> bool:
        for key in list(self._open):
            self._settle(key)
        return not self._open

    def try_complete(self, key: TopicPartition) -> bool:
        if key in self._open:
            self._settle(key)
        if self._open:
            return False
        self._promise.set(self._outcomes)
        return True

    def _settle(self, key: TopicPartition) -> None:
        raise NotImplementedError


class WaitingProduce(_WaitingForEach[AppendOutcome]):
    """Done when every appended partition is acknowledgeable; at the deadline the rest time out."""

    def __init__(
        self,
        outcomes: dict[TopicPartition, AppendOutcome],
        acks: int,
        find: Callable[[TopicPartition], Replica | None],
        promise: Promise[dict[TopicPartition, AppendOutcome]],
    ) -> None:
        super().__init__(outcomes, find, promise)
        self._acks = acks

    def expire(self) -> None:
        for key in self._open:
            self._outcomes[key] = AppendOutcome(ErrorCode.REQUEST_TIMED_OUT)
        self._promise.set(self._outcomes)

    def _settle(self, key: TopicPartition) -> None:
        replica = self._find(key)
        outcome = self._outcomes[key]
        if replica is None or not replica.core.is_leader:
            self._outcomes[key] = AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not replica.is_acknowledgeable(outcome.required_offset, self._acks):
            return
        elif self._acks == ACKS_ALL and not replica.core.has_enough_in_sync_replicas():
            self._outcomes[key] = AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._open.discard(key)


@dataclass(slots=True)
class Deletion:
    """The outcome for one partition of DeleteRecords. Everything before `offset` must go."""

    error_code: ErrorCode
    offset: int = NO_OFFSET
    low_watermark: int = NO_OFFSET


class WaitingDeletion(_WaitingForEach[Deletion]):
    """Done when all live replicas have deleted what was asked for; at the deadline the rest time
    out."""

    def __init__(
        self,
        deletions: dict[TopicPartition, Deletion],
        find: Callable[[TopicPartition], Replica | None],
        is_live: Callable[[int], bool],
        promise: Promise[dict[TopicPartition, Deletion]],
    ) -> None:
        super().__init__(deletions, find, promise)
        self._is_live = is_live

    def expire(self) -> None:
        # Followers may have died meanwhile without this operation being informed.
        if not self.is_done():
            for key in self._open:
                self._outcomes[key].error_code = ErrorCode.REQUEST_TIMED_OUT
        self._promise.set(self._outcomes)

    def _settle(self, key: TopicPartition) -> None:
        replica, deletion = self._find(key), self._outcomes[key]
        if replica is None or not replica.core.is_leader:
            deletion.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            deletion.low_watermark = NO_OFFSET
        else:
            deletion.low_watermark = replica.core.low_watermark(
                replica.log.log_start_offset, self._is_live
            )
            if deletion.low_watermark < deletion.offset:
                return
        self._open.discard(key)


class WaitingFetch:
    """Done when enough bytes can be read, or at the deadline with what is available.

    Most clients ask for one byte, so the first partition that grows beyond its fetch offset ends
    the wait. With a larger minimum, only the changed partitions are measured, never all.
    """

    def __init__(
        self, fetch: Fetch, outcomes: list[ReadOutcome], promise: Promise[list[ReadOutcome]]
    ) -> None:
        self._fetch = fetch
        # Slices are not kept: their data may be gone when the wait ends.
        self._empty = [None if outcome.records is not None else outcome for outcome in outcomes]
        self._promise = promise
        self._sizes = fetch.sizes(outcomes)
        self._changed: set[TopicPartition] = set()

    def try_complete(self, key: TopicPartition) -> bool:
        self._changed.add(key)
        available_bytes = self._fetch.available_bytes(key)
        if available_bytes != ENDS_THE_WAIT:
            self._sizes[key] = available_bytes
            if sum(self._sizes.values()) < self._fetch.min_bytes:
                return False
        self._finish()
        return True

    def expire(self) -> None:
        self._finish()

    def _finish(self) -> None:
        self._promise.set(self._fetch.read_again(self._empty, self._changed))


class WaitingFetchOfOne:
    """The same for one partition: reading it is as fast as checking what could be read."""

    def __init__(self, fetch: Fetch, promise: Promise[list[ReadOutcome]]) -> None:
        self._fetch = fetch
        self._promise = promise

    def try_complete(self, key: TopicPartition) -> bool:
        if self._fetch.has_nothing_new(key):
            return False
        outcomes = self._fetch.read()
        if not self._fetch.is_enough(outcomes):
            return False
        self._promise.set(outcomes)
        return True

    def expire(self) -> None:
        self._promise.set(self._fetch.read())
