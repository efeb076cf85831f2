"""CORE: the state and decisions of a partition's replica.

Leader epoch, in-sync replicas, the followers' progress and the high watermark. It uses neither disk
nor network: `replication.replica` combines it with the log. A single broker uses it like a cluster,
with itself as the only in-sync replica.

The rules (SPEC R3 to R6):

- leader:   high_watermark = max(high_watermark, min(log end offsets of the in-sync replicas)),
            including those it has asked the controller to add (KIP-497),
            unless fewer than `min.insync.replicas` are in sync (KAFKA-15583)
- follower: high_watermark = min(the leader's high watermark, own log end offset)
- the high watermark never decreases while a leader leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from floodmark.invariant import invariant
from floodmark.metadata.image import PartitionImage
from floodmark.vocabulary import NO_BROKER_EPOCH, NO_LEADER, NO_OFFSET
from floodmark.wire.errors import NO_ERROR, ErrorCode

# The proposal was not stored and never will be.
_REFUSED: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
# The controller knows more than this leader, perhaps from an earlier copy of the proposal.
_OUTDATED: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(frozen=True, slots=True)
class Leadership:
    """The controller's decision for a partition: one line of LeaderAndIsr."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[int, ...]
    assigned_replicas: tuple[int, ...]

    @classmethod
    def of(cls, partition: PartitionImage) -> Leadership:
        return cls(
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr,
            partition.replicas,
        )

    def is_new_after(self, known: Leadership) -> bool:
        """Whether a new leader starts. A starting broker knows the epoch from the store before the
        controller names the leader: until then, there was none as far as it knew."""
        return self.leader_epoch > known.leader_epoch or (
            self.leader_epoch == known.leader_epoch
            and known.leader == NO_LEADER
            and self.leader != NO_LEADER
        )


@dataclass(slots=True)
class FollowerProgress:
    """What the leader knows about a follower's progress.

    `last_caught_up_ms` is when the follower last had all of the leader's records. Its age, not the
    number of missing records, decides whether the follower leaves the in-sync replicas.
    """

    last_caught_up_ms: float
    log_end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    last_fetch_ms: float = 0.0
    leader_end_at_last_fetch: int = 0
    # The epoch of the process that fetched: after a restart it may have lost records (KIP-903).
    broker_epoch: int = NO_BROKER_EPOCH


class ProposedReplica(NamedTuple):
    """A member of the in-sync replicas that a leader proposes.

    The broker epoch is that of the fetch on which the leader decided, even if the proposal is sent
    again: a follower that has restarted since must not get in (KIP-903). -1 is the leader's.
    """

    broker_id: int
    broker_epoch: int


class Partition:
    """The state of one replica. `broker_id` is the broker that holds it."""

    __slots__ = (
        "broker_id",
        "followers",
        "high_watermark",
        "leader_epoch_start_offset",
        "leadership",
        "log_end_offset",
        "min_in_sync_replicas",
        "proposal",
        "proposal_is_outdated",
    )

    def __init__(
        self,
        broker_id: int,
        *,
        log_end_offset: int,
        high_watermark: int,
        min_in_sync_replicas: int = 1,
    ) -> None:
        invariant(high_watermark >= 0, "a high watermark is never negative")
        self.broker_id = broker_id
        self.log_end_offset = log_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self.min_in_sync_replicas = min_in_sync_replicas
        self.leadership = Leadership(NO_LEADER, -1, -1, (), ())
        self.followers: dict[int, FollowerProgress] = {}
        self.leader_epoch_start_offset = 0
        # What the controller was asked for and may already have decided.
        self.proposal: tuple[ProposedReplica, ...] | None = None
        # Do not send it again: only the controller's next decision can settle it.
        self.proposal_is_outdated = False

    @property
    def is_leader(self) -> bool:
        return self.leadership.leader == self.broker_id

    @property
    def knows_high_watermark(self) -> bool:
        """Whether a new leader's high watermark covers what earlier leaders may have committed.

        All of that lies below the start of its epoch (KIP-207).
        """
        return self.high_watermark >= self.leader_epoch_start_offset

    # Decisions of the controller

    def apply(self, leadership: Leadership, now_ms: float) -> bool:
        """Applies a decision of the controller. Returns False if it is outdated."""
        known = self.leadership
        if (leadership.leader_epoch, leadership.partition_epoch) < (
            known.leader_epoch,
            known.partition_epoch,
        ):
            return False
        if (leadership.leader_epoch, leadership.partition_epoch) != (
            known.leader_epoch,
            known.partition_epoch,
        ):
            # Any proposal was based on older state: this decision includes or refuses it.
            self._forget_proposal()
        is_new_term = leadership.leader == self.broker_id and leadership.is_new_after(known)
        self.leadership = leadership
        if is_new_term:
            self.leader_epoch_start_offset = self.log_end_offset
        if leadership.leader != self.broker_id:
            self.followers = {}
        else:
            others = [r for r in leadership.assigned_replicas if r != self.broker_id]
            kept = {} if is_new_term else self.followers
            self.followers = {r: kept.get(r) or FollowerProgress(now_ms) for r in others}
            self._advance_high_watermark()
        return True

    # The leader's view

    def appended(self, log_end_offset: int) -> bool:
        """The leader's log has grown. Returns whether the high watermark moved."""
        self.log_end_offset = log_end_offset
        if not self.followers:
            self.high_watermark = log_end_offset
            return True
        return self._advance_high_watermark()

    def fetched_by(
        self,
        follower: int,
        fetch_offset: int,
        now_ms: float,
        broker_epoch: int = NO_BROKER_EPOCH,
        log_start_offset: int = NO_OFFSET,
    ) -> bool:
        """A follower fetches at `fetch_offset`: it has all earlier records on disk (SPEC R5).

        It counts as caught up now if it asks for the leader's end, and as caught up at its last
        fetch if it asks for what was the end then: a follower that keeps pace with a busy leader
        never sees the actual end.
        """
        progress = self.followers.get(follower)
        if progress is None or broker_epoch < progress.broker_epoch:
            return False
        progress.broker_epoch = broker_epoch
        if fetch_offset >= self.log_end_offset:
            progress.last_caught_up_ms = now_ms
        elif fetch_offset >= progress.leader_end_at_last_fetch:
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.log_end_offset = fetch_offset
        progress.log_start_offset = log_start_offset
        progress.last_fetch_ms = now_ms
        progress.leader_end_at_last_fetch = self.log_end_offset
        return self._advance_high_watermark()

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """The first offset that a live replica may still hold; -1 if one has not reported."""
        starts = [p.log_start_offset for broker, p in self.followers.items() if is_live(broker)]
        return min([log_start_offset, *starts])

    def lagging(self, now_ms: float, max_lag_ms: float) -> tuple[int, ...]:
        """In-sync followers that have lagged for too long and should be removed."""
        return tuple(
            replica
            for replica in self.leadership.in_sync_replicas
            if replica in self.followers
            and self.followers[replica].log_end_offset != self.log_end_offset
            and now_ms - self.followers[replica].last_caught_up_ms > max_lag_ms
        )

    def is_caught_up(self, follower: int) -> bool:
        """Whether a follower has everything that may be committed.

        The high watermark alone is not enough: a new leader's may lag behind what the previous
        leader acknowledged, all of which lies below the start of this leader's epoch.
        """
        progress = self.followers.get(follower)
        return progress is not None and progress.log_end_offset >= max(
            self.high_watermark, self.leader_epoch_start_offset
        )

    def propose_to_shrink(
        self, now_ms: float, max_lag_ms: float
    ) -> tuple[ProposedReplica, ...] | None:
        """The periodic proposal to the controller: the in-sync replicas without lagging ones.

        None if none lags, or while a response is pending. Followers never join periodically: see
        `propose_to_add`.
        """
        lagging = self.lagging(now_ms, max_lag_ms)
        if not lagging or not self._may_propose():
            return None
        return self._propose([r for r in self.leadership.in_sync_replicas if r not in lagging])

    def propose_to_add(
        self, follower: int, now_ms: float, max_lag_ms: float
    ) -> tuple[ProposedReplica, ...] | None:
        """The proposal to the controller after this follower has fetched.

        The last known end of a silent follower means nothing: it may have restarted with less. So
        only a recent fetch lets it in.
        """
        if follower in self.leadership.in_sync_replicas or not self._may_propose():
            return None
        if not self.is_caught_up(follower):
            return None
        if now_ms - self.followers[follower].last_fetch_ms > max_lag_ms:
            return None
        return self._propose([*self.leadership.in_sync_replicas, follower])

    def _may_propose(self) -> bool:
        return self.is_leader and self.proposal is None

    def _propose(self, wanted: Sequence[int]) -> tuple[ProposedReplica, ...]:
        self.proposal = tuple(
            ProposedReplica(
                replica,
                self.followers[replica].broker_epoch
                if replica in self.followers
                else NO_BROKER_EPOCH,
            )
            for replica in wanted
        )
        return self.proposal

    def proposal_to_send(self) -> tuple[ProposedReplica, ...] | None:
        """The proposal to send, for the first time or again."""
        return None if self.proposal_is_outdated else self.proposal

    def proposal_failed(self, failed: tuple[ProposedReplica, ...], error_code: ErrorCode) -> None:
        """The controller responded to this proposal with an `AlterPartition` error.

        A refused proposal is dropped: its broker epoch has passed, so no copy of it will be
        accepted later. An outdated one keeps holding the high watermark until the controller's next
        decision, because an earlier copy may have been stored. After any other error it is sent
        again. A late response to an earlier proposal says nothing about the current one.
        """
        if failed != self.proposal:
            return
        if error_code in _REFUSED:
            self._forget_proposal()
        elif error_code in _OUTDATED:
            self.proposal_is_outdated = True

    def _forget_proposal(self) -> None:
        self.proposal = None
        self.proposal_is_outdated = False

    def has_enough_in_sync_replicas(self) -> bool:
        """If fewer replicas are assigned than required, all of them suffice (KIP-966)."""
        wanted = min(self.min_in_sync_replicas, len(self.leadership.assigned_replicas))
        return len(self.leadership.in_sync_replicas) >= wanted

    def refusal_to_append(self, acks_all: bool) -> ErrorCode | None:
        """Why nobody may append now; None if they may."""
        if self.leadership.leader != self.broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks_all and not self.has_enough_in_sync_replicas():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return None

    def _advance_high_watermark(self) -> bool:
        if not self.has_enough_in_sync_replicas():
            return False
        in_sync_replicas = self.leadership.in_sync_replicas
        if self.proposal is not None:
            in_sync_replicas += tuple(replica for replica, _ in self.proposal)
        ends: Sequence[int] = [
            self.log_end_offset
            if replica == self.broker_id
            else self.followers[replica].log_end_offset
            for replica in in_sync_replicas
            if replica == self.broker_id or replica in self.followers
        ]
        candidate = min(ends, default=self.high_watermark)
        if candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    # The follower's view

    def followed(self, log_end_offset: int, leader_high_watermark: int) -> bool:
        """A follower has copied data and learned the leader's high watermark."""
        self.log_end_offset = log_end_offset
        candidate = min(leader_high_watermark, log_end_offset)
        moved = candidate > self.high_watermark
        self.high_watermark = max(candidate, self.high_watermark)
        return moved

    def truncated(self, log_end_offset: int, log_start_offset: int = 0) -> None:
        """A follower truncated its log by leader epoch. Its high watermark lies within the rest.

        In a log that restarts, everything before the start was committed: leaders delete nothing
        else.
        """
        self.log_end_offset = log_end_offset
        self.high_watermark = max(min(self.high_watermark, log_end_offset), log_start_offset)

    # Fencing (KIP-320)

    def is_follower(self, broker_id: int) -> bool:
        """Whether another broker has an assigned replica. Others are not served as followers."""
        return broker_id != self.broker_id and broker_id in self.leadership.assigned_replicas

    def fence(self, current_leader_epoch: int) -> ErrorCode:
        """Compares a request's leader epoch with ours; -1 disables the check."""
        known = self.leadership.leader_epoch
        if current_leader_epoch in (-1, known):
            return NO_ERROR
        if current_leader_epoch < known:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
