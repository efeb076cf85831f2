"""The reads of one fetch request: within its limits, from all of its partitions or from those that
have changed since it began to wait.

Made by `replication.replica_manager` for each request; `replication.waiting` keeps it while there
is too little to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

from floodmark.records.errors import CorruptRecord
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.replica import Isolation, ReadOutcome, Replica
from floodmark.storage.errors import StorageError
from floodmark.wire.errors import NO_ERROR, ErrorCode

ReplicaKey: TypeAlias = tuple[str, int]
Targets: TypeAlias = Sequence[tuple[ReplicaKey | None, FetchTarget]]
"""What is asked for; a target whose topic id is unknown comes without a key."""

ENDS_THE_WAIT = -1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchLimits(NamedTuple):
    """The bounds of one fetch request."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    isolation: Isolation
    is_follower: bool = False


class Replicas(Protocol):
    """What a fetch needs of the replica manager."""

    def find(self, key: ReplicaKey) -> Replica | None: ...
    def missing(self, key: ReplicaKey) -> ErrorCode: ...
    def disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None: ...
    def found_damage(self, replica: Replica, problem: CorruptRecord) -> None: ...


class Fetch:
    __slots__ = ("_by_key", "_limits", "_replicas", "_targets")

    def __init__(self, replicas: Replicas, targets: Targets, limits: FetchLimits) -> None:
        self._replicas = replicas
        self._targets = targets
        self._by_key = dict(targets)
        self._limits = limits

    @property
    def keys(self) -> list[ReplicaKey]:
        return [key for key in self._by_key if key is not None]

    @property
    def min_bytes(self) -> int:
        return self._limits.min_bytes

    def read(self) -> list[ReadOutcome]:
        """The outcomes in the order of the targets."""
        targets = self._targets
        if len(targets) == 1:
            return [self._read_one(*targets[0], self._limits.max_bytes, True)]
        return self._read(repeat(None))

    def read_again(
        self, before: list[ReadOutcome | None], changed: Collection[ReplicaKey | None]
    ) -> list[ReadOutcome]:
        """The same later. `before` are the outcomes that had no records: where nothing happened
        since, they still hold."""
        return self._read(
            None if key in changed else outcome
            for (key, _), outcome in zip(self._targets, before, strict=True)
        )

    def sizes(self, outcomes: list[ReadOutcome]) -> dict[ReplicaKey, int]:
        """The partitions that have something, and how much."""
        return {
            key: outcome.size_bytes
            for (key, _), outcome in zip(self._targets, outcomes, strict=True)
            if key is not None and outcome.records is not None
        }

    def is_enough(self, outcomes: list[ReadOutcome]) -> bool:
        """An error or a divergence is answered at once: the client has to act on it. But what does
        not exist waits with the others, as in Kafka: a consumer may ask for it again and again."""
        size_bytes = 0
        unknown = 0
        for outcome in outcomes:
            if outcome.error_code is not NO_ERROR:
                if outcome.error_code not in _UNKNOWN:
                    return True
                unknown += 1
            elif outcome.divergence is not None:
                return True
            elif outcome.records is not None:
                size_bytes += outcome.records.size_bytes
        return size_bytes >= self._limits.min_bytes or unknown == len(outcomes)

    def available_bytes(self, key: ReplicaKey) -> int:
        """How much of a partition could be read now; ENDS_THE_WAIT when the answer is due, however
        much that is."""
        replica = self._replicas.find(key)
        if replica is None or not replica.core.is_leader:
            return ENDS_THE_WAIT
        target, limits = self._by_key[key], self._limits
        if replica.core.fence(target.current_leader_epoch) is not NO_ERROR:
            return ENDS_THE_WAIT
        end_offset = replica.readable_end(limits.isolation, is_follower=limits.is_follower)
        if end_offset <= target.fetch_offset:
            return 0
        if limits.min_bytes <= 1:
            return ENDS_THE_WAIT
        outcome = self._read_one(key, target, limits.max_bytes, True)
        return outcome.size_bytes if outcome.error_code is NO_ERROR else ENDS_THE_WAIT

    def _read(self, known: Iterable[ReadOutcome | None]) -> list[ReadOutcome]:
        outcomes: list[ReadOutcome] = []
        left_bytes = self._limits.max_bytes
        nothing_yet = True
        for (key, target), known_outcome in zip(self._targets, known, strict=False):
            outcome = known_outcome or self._read_one(key, target, left_bytes, nothing_yet)
            if outcome.records is not None:
                left_bytes = max(0, left_bytes - outcome.records.size_bytes)
                nothing_yet = False
            outcomes.append(outcome)
        return outcomes

    def _read_one(
        self, key: ReplicaKey | None, target: FetchTarget, left_bytes: int, min_one_batch: bool
    ) -> ReadOutcome:
        if key is None:
            return ReadOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
        replica = self._replicas.find(key)
        if replica is None:
            return ReadOutcome(self._replicas.missing(key))
        fenced = replica.core.fence(target.current_leader_epoch)
        if fenced is not NO_ERROR:
            return ReadOutcome(fenced)
        try:
            return replica.read(
                target.fetch_offset,
                min(target.max_bytes, left_bytes),
                self._limits.isolation,
                is_follower=self._limits.is_follower,
                # A batch larger than every limit is still returned when it comes first (KIP-74).
                min_one_batch=min_one_batch,
                last_fetched_epoch=target.last_fetched_epoch,
            )
        except (StorageError, OSError) as problem:
            self._replicas.disk_failed(replica, problem)
            return ReadOutcome(ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptRecord as problem:
            self._replicas.found_damage(replica, problem)
            return ReadOutcome(ErrorCode.CORRUPT_MESSAGE)
