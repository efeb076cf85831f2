"""How a simulated broker handles the partitions it follows."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from floodmark.replication import following
from floodmark.replication.follower import (
    Append,
    BackOff,
    FindOffsets,
    StartAt,
    Step,
    TruncateTo,
)
from floodmark.replication.replica import Replica
from floodmark.testing.simulation.messages import (
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaOffsets,
    ReplicaOffsetsAnswer,
)

if TYPE_CHECKING:
    from floodmark.testing.simulation.broker import SimulatedBroker


class Following:
    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker

    def fetch_all(self, random: Random) -> None:
        """One round of the follower fetch loops."""
        for replica in self._broker.replicas.replicas:
            fetch = following.next_fetch(replica)
            if fetch is not None:
                request = ReplicaFetch(
                    self._broker.incarnation,
                    self._broker.fence.broker_epoch,
                    replica.key,
                    fetch,
                    random.choice((150, 400, 5000)),
                )
                self._broker.send(fetch.leader, request)

    def fetched(self, source: int, answered: ReplicaFetchAnswer) -> None:
        replica = self._replica_of(answered)
        if replica is None:
            return
        step = following.decide(replica, answered.fetch, answered.answer)
        if isinstance(step, FindOffsets):
            asked = ReplicaOffsets(self._broker.incarnation, answered.key, answered.fetch)
            self._broker.send(source, asked)
        else:
            self._take(replica, step, answered.records)

    def offsets_found(self, answered: ReplicaOffsetsAnswer) -> None:
        replica = self._replica_of(answered)
        if replica is not None:
            step = following.decide_after_out_of_range(
                replica, answered.fetch, answered.log_start_offset, answered.log_end_offset
            )
            self._take(replica, step, b"")

    def _replica_of(self, answered: ReplicaFetchAnswer | ReplicaOffsetsAnswer) -> Replica | None:
        if answered.incarnation != self._broker.incarnation:
            return None
        return self._broker.replicas.find(answered.key)

    def _take(self, replica: Replica, step: Step, records: bytes) -> None:
        now_ms, manager = self._broker.clock.now_ms(), self._broker.manager
        match step:
            case Append():
                restart = following.restart_inside_a_batch(replica, records, step)
                if restart is not None:
                    start_at, step = restart
                    manager.truncate_fully_and_start_at(replica.log, start_at.offset, now_ms)
                    replica.truncated()
                following.append_as_follower(replica, records, step, now_ms)
                self._broker.replicas.copied(replica)
            case TruncateTo(offset):
                manager.truncate_to(replica.log, offset, now_ms)
                replica.truncated()
            case StartAt(offset):
                manager.truncate_fully_and_start_at(replica.log, offset, now_ms)
                replica.truncated()
            case BackOff() | FindOffsets():
                pass
