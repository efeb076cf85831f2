"""Serves one fetch of a follower through `leading.read_for_follower`, which the simulator also
runs, and collects what the fetch says about the follower's progress.

Created by `replication.replica_manager` for each fetch of a replica, and used by
`replication.fetch_reads`.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.replication import leading
from floodmark.replication.fetch_sessions import UNKNOWN_HIGH_WATERMARK, FetchTarget
from floodmark.replication.follower import FollowerFetch
from floodmark.replication.outcomes import ReadOutcome
from floodmark.replication.replica import Replica
from floodmark.wire.errors import NO_ERROR


class FollowerReads:
    """`advanced` has the replicas whose high or low watermark this fetch may have moved,
    `candidates` those that the follower copies without being in sync."""

    __slots__ = (
        "_broker_epoch",
        "_is_over_quota",
        "_is_repeated",
        "_now_ms",
        "_tells_high_watermark",
        "advanced",
        "candidates",
        "follower_id",
    )

    def __init__(
        self,
        follower_id: int,
        broker_epoch: int,
        now_ms: float,
        is_over_quota: Callable[[], bool],
        *,
        tells_high_watermark: bool = True,
    ) -> None:
        """`is_over_quota`: whether followers of throttled replicas must wait.
        `tells_high_watermark`: whether a new high watermark alone is worth a response."""
        self.follower_id = follower_id
        self._is_over_quota = is_over_quota
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._tells_high_watermark = tells_high_watermark
        self._is_repeated = False
        self.advanced: list[Replica] = []
        self.candidates: list[Replica] = []

    def wait(self) -> None:
        """Further reads repeat the same fetch, and show no further progress."""
        self._is_repeated = True

    def is_held_back(self, replica: Replica) -> bool:
        """Whether the leader's throttle delays this partition. In-sync followers are never
        delayed."""
        return (
            replica.is_throttled_as_leader
            and self.follower_id not in replica.core.leadership.in_sync_replicas
            and self._is_over_quota()
        )

    def lacks_offsets(
        self, target: FetchTarget, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether to tell the follower a new watermark at once, without records.

        Only if the follower's fetch says what it knows (KIP-1166); otherwise this would never end.
        The high watermark matters only if consumers read from followers (KIP-392). Otherwise it
        comes with the next records, as in Kafka: each produce would cost each follower two fetches
        (KAFKA-9731).
        """
        if target.high_watermark == UNKNOWN_HIGH_WATERMARK:
            return False
        if log_start_offset > max(target.log_start_offset, target.told_log_start_offset):
            return True
        known = max(target.high_watermark, target.told_high_watermark)
        return self._tells_high_watermark and high_watermark > known

    def read(
        self, replica: Replica, target: FetchTarget, max_bytes: int, min_one_batch: bool
    ) -> ReadOutcome:
        core = replica.core
        high_watermark = core.high_watermark
        progress = core.followers.get(self.follower_id)
        if replica.is_throttled_as_leader and self.is_held_back(replica):
            max_bytes, min_one_batch = 0, False
        known_start = None if progress is None else progress.log_start_offset
        fetch = FollowerFetch(
            core.leadership.leader,
            target.current_leader_epoch,
            target.fetch_offset,
            target.last_fetched_epoch,
        )
        outcome = leading.read_for_follower(
            replica,
            self.follower_id,
            self._broker_epoch,
            fetch,
            max_bytes,
            self._now_ms,
            min_one_batch=min_one_batch,
            log_start_offset=target.log_start_offset,
            is_repeated=self._is_repeated,
        )
        if self._is_repeated or outcome.error_code is not NO_ERROR:
            return outcome
        if outcome.divergence is None and progress is not None:
            if core.high_watermark != high_watermark or progress.log_start_offset != known_start:
                self.advanced.append(replica)
            if self.follower_id not in core.leadership.in_sync_replicas:
                self.candidates.append(replica)
        return outcome
