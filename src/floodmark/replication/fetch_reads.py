"""The reads of one fetch request: from all partitions, or those that changed while it waited.

Created by `replication.replica_manager` for each request. `replication.waiting` keeps it while
there is too little to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

from floodmark.records.errors import CorruptRecord
from floodmark.replication import leading
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.follower_reads import FollowerReads
from floodmark.replication.outcomes import NO_REPLICA, Divergence, Isolation, ReadOutcome
from floodmark.replication.replica import Replica
from floodmark.storage.errors import StorageError
from floodmark.vocabulary import NO_BROKER_EPOCH, NO_LEADER_EPOCH, TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode

Targets: TypeAlias = Sequence[tuple[TopicPartition | None, FetchTarget]]
"""The requested partitions. A target with an unknown topic id has no key."""

CONSUMER = -1
ENDS_THE_WAIT = -1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchLimits(NamedTuple):
    """The limits of one fetch request."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    isolation: Isolation
    replica_id: int = CONSUMER
    """The broker that fetches for its replica; negative for a consumer."""
    replica_epoch: int = NO_BROKER_EPOCH
    leader_only: bool = True
    """Whether the client is too old to read from a follower."""
    rack: str = ""
    """The consumer's rack, for which there may be a closer replica."""


class Replicas(Protocol):
    """What a fetch needs from the replica manager."""

    def find(self, key: TopicPartition) -> Replica | None: ...
    def missing(self, key: TopicPartition) -> ErrorCode: ...
    def disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None: ...
    def closest(self, replica: Replica, rack: str, fetch_offset: int) -> int | None: ...
    def found_damage(self, replica: Replica, problem: CorruptRecord) -> None: ...


class Fetch:
    __slots__ = (
        "_by_key",
        "_follower",
        "_isolation",
        "_leader_only",
        "_limits",
        "_rack",
        "_replicas",
        "_targets",
    )

    def __init__(
        self,
        replicas: Replicas,
        targets: Targets,
        limits: FetchLimits,
        follower: FollowerReads | None = None,
    ) -> None:
        """`follower` is given if the limits name a replica."""
        self._replicas = replicas
        self._follower = follower
        self._targets = targets
        self._by_key = dict(targets)
        self._limits = limits
        # Copied, because a named tuple is slower to access for every partition.
        self._isolation, self._leader_only = limits.isolation, limits.leader_only
        self._rack = limits.rack

    @property
    def keys(self) -> list[TopicPartition]:
        return [key for key in self._by_key if key is not None]

    @property
    def min_bytes(self) -> int:
        return self._limits.min_bytes

    def read(self) -> list[ReadOutcome]:
        """The outcomes, in the order of the targets."""
        targets = self._targets
        if len(targets) == 1:
            return [self._read_one(*targets[0], self._limits.max_bytes, True)]
        return self._read(repeat(None))

    def read_again(
        self, before: list[ReadOutcome | None], changed: Collection[TopicPartition | None]
    ) -> list[ReadOutcome]:
        """Reads again later.

        `before` holds the outcomes without records, which are still valid where nothing has
        changed.
        """
        return self._read(
            None if key in changed else outcome
            for (key, _), outcome in zip(self._targets, before, strict=True)
        )

    def sizes(self, outcomes: list[ReadOutcome]) -> dict[TopicPartition, int]:
        """The partitions that have data, with its size."""
        return {
            key: outcome.size_bytes
            for (key, _), outcome in zip(self._targets, outcomes, strict=True)
            if key is not None and outcome.records is not None
        }

    def is_enough(self, outcomes: list[ReadOutcome]) -> bool:
        """An error or a divergence ends the wait, because the client must act on it.

        As in Kafka, missing partitions do not: a consumer may request them again and again.
        """
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
            elif self._rack and outcome.preferred_read_replica != NO_REPLICA:
                return True
        if size_bytes >= self._limits.min_bytes or unknown == len(outcomes):
            return True
        follower = self._follower
        return follower is not None and any(
            follower.lacks_offsets(target, outcome.high_watermark, outcome.log_start_offset)
            for (_, target), outcome in zip(self._targets, outcomes, strict=True)
        )

    def has_nothing_new(self, key: TopicPartition) -> bool:
        """Decided without a read: an acknowledged produce alone is no news for a follower."""
        return self._follower is not None and self.available_bytes(key) == 0

    def available_bytes(self, key: TopicPartition) -> int:
        """How much of a partition could be read now.

        ENDS_THE_WAIT means the response is due, whatever the size.
        """
        replica = self._replicas.find(key)
        target, limits = self._by_key[key], self._limits
        if replica is None or (limits.leader_only and not replica.core.is_leader):
            return ENDS_THE_WAIT
        if replica.core.fence(target.current_leader_epoch) is not NO_ERROR:
            return ENDS_THE_WAIT
        follower = self._follower
        if follower is not None and follower.lacks_offsets(
            target, replica.core.high_watermark, replica.log.log_start_offset
        ):
            return ENDS_THE_WAIT
        end_offset = replica.readable_end(limits.isolation, is_follower=follower is not None)
        if end_offset <= target.fetch_offset:
            return 0
        if follower is not None and follower.is_held_back(replica):
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
            elif left_bytes < 0:
                left_bytes = 0
            outcomes.append(outcome)
        return outcomes

    def _read_one(
        self, key: TopicPartition | None, target: FetchTarget, left_bytes: int, min_one_batch: bool
    ) -> ReadOutcome:
        if key is None:
            return ReadOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
        replica = self._replicas.find(key)
        if replica is None:
            return ReadOutcome(self._replicas.missing(key))
        fenced = replica.core.fence(target.current_leader_epoch)
        if fenced is not NO_ERROR:
            return ReadOutcome(fenced)
        follower = self._follower
        if follower is not None and not replica.core.is_follower(follower.follower_id):
            return ReadOutcome(_why_no_follower(target))
        max_bytes = min(target.max_bytes, left_bytes)
        try:
            if (
                max_bytes < 0
                and replica.readable_end(self._isolation, is_follower=follower is not None)
                > target.fetch_offset
                >= replica.log.log_start_offset
            ):
                # Kafka's own exception maps to this. It raises it only if there is something to
                # read.
                return ReadOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
            # A batch above every limit is still returned if it comes first (KIP-74).
            if follower is not None:
                outcome = follower.read(replica, target, max_bytes, min_one_batch)
            elif self._rack and (elsewhere := self._elsewhere(replica, target)):
                return elsewhere
            else:
                outcome = leading.read(
                    replica,
                    target.fetch_offset,
                    max_bytes,
                    self._isolation,
                    False,
                    min_one_batch,
                    target.last_fetched_epoch,
                    self._leader_only,
                )
            if target.last_fetched_epoch < 0 or outcome.divergence is None:
                return outcome
            return _or_out_of_range(outcome, outcome.divergence, target.fetch_offset)
        except (StorageError, OSError) as problem:
            self._replicas.disk_failed(replica, problem)
            return ReadOutcome(ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptRecord as problem:
            self._replicas.found_damage(replica, problem)
            return ReadOutcome(ErrorCode.CORRUPT_MESSAGE)

    def _elsewhere(self, replica: Replica, target: FetchTarget) -> ReadOutcome | None:
        """Where a consumer should read instead, if a replica is closer to it."""
        closest = self._replicas.closest(replica, self._rack, target.fetch_offset)
        if closest is None:
            return None
        return ReadOutcome(
            NO_ERROR,
            replica.core.high_watermark,
            replica.last_stable_offset,
            replica.log.log_start_offset,
            preferred_read_replica=closest,
        )


def _or_out_of_range(outcome: ReadOutcome, found: Divergence, fetch_offset: int) -> ReadOutcome:
    """As in Kafka, clients learn of a divergence only if its offset is in our log."""
    if found.leader_epoch == NO_LEADER_EPOCH or fetch_offset < outcome.log_start_offset:
        return ReadOutcome(ErrorCode.OFFSET_OUT_OF_RANGE)
    return outcome


def _why_no_follower(target: FetchTarget) -> ErrorCode:
    """A newly assigned replica may know a leader epoch that we do not know yet, and will retry."""
    if target.current_leader_epoch >= 0:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
