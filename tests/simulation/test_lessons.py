"""Each known mistake, put back on purpose, is caught by the simulator.

A test per lesson that others, or we, paid for (RELIABILITY.md). A mistake that no schedule catches
would mean that the simulator, which is to keep us from making it again, does not look there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

from floodmark.controller import elections, isr, membership, reassignment
from floodmark.controller.decision import View
from floodmark.controller.election import Candidacy, candidacy
from floodmark.controller.eligible_replicas import without
from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo, PartitionImage
from floodmark.metadata.loader import Identity, decode_brokers
from floodmark.metadata.store import Check, StoreUnavailable
from floodmark.replication import follower, following, leading
from floodmark.replication.control_fence import UNKNOWN_EPOCH, ControlFence
from floodmark.replication.follower import (
    Append,
    BackOff,
    FollowerAnswer,
    FollowerFetch,
    Step,
    TruncateTo,
)
from floodmark.replication.outcomes import ReadOutcome
from floodmark.replication.partition import Partition, ProposedReplica
from floodmark.replication.replica import Replica
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.testing.simulation import Simulation, SimulationFailure, controller
from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.wire.errors import ErrorCode

SCHEDULES = 400

# Weights of faults and changes: which weather brings a mistake to light soonest.
RESTLESS = {"move_leader": 160, "cut_link": 60}
HASTY = {"move_leader": 160, "repeat": 250, "drop": 30}
ECHOING = {"repeat": 400, "drop": 80}
STORMY = {"lose_power": 80, "expire_live": 60, "stop": 30, "move_leader": 60}
LEADERLESS = {"crash_controller": 60, "expire_live": 60, "lose_answer": 30, "move_leader": 100}
LOSING_THE_STORE = {"lose_store_within": 100, "kill": 60, "expire_live": 60, "move_leader": 60}
# Partitions move between brokers.
MOVING = {"reassign": 60, "move_leader": 60, "kill": 20}
# Nobody looks at brokers for long.
BLIND = {"look_at_brokers": 30, "elect_controller": 20, "lose_power": 100, "stop": 150}

CAREFUL = {"min_in_sync_replicas": 2, "is_clean": True, "flush_messages": None}
CLEAN = {"is_clean": True}
SYNCED = {"is_clean": True, "flush_messages": 1}

Caught = Callable[..., str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def caught(monkeypatch: Patch) -> Caught:
    """Runs schedules until one fails, and says how; without the mistake the same one passes.

    `first` is a seed shortly before one that is known to catch it: to find one may take minutes.
    """

    def run(
        *,
        weather: Mapping[str, int] | None = None,
        topics: Mapping[str, object] = CLEAN,
        first: int = 0,
        brokers: int = 3,
    ) -> str:
        for seed in range(first, first + SCHEDULES):
            try:
                Simulation(seed, brokers=brokers, weather=weather, topics=topics).run()
            except SimulationFailure as failure:
                monkeypatch.undo()
                Simulation(seed, brokers=brokers, weather=weather, topics=topics).run()
                print(f"caught by seed {seed}")
                return str(failure).splitlines()[0]
        pytest.fail(f"{SCHEDULES} schedules did not notice the mistake")

    return run


# Truncation


def test_kip_101_truncating_by_high_watermark_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    """The follower trusts its own high watermark and asks the leader nothing about epochs."""
    apply, next_fetch = SimulatedBroker.apply, follower.next_fetch

    def truncating(self: SimulatedBroker, key: tuple[str, int], state: PartitionImage) -> None:
        known = self.replicas.find(key)
        epoch_before = -1 if known is None else known.core.leadership.leader_epoch
        apply(self, key, state)
        replica = self.replicas.find(key)
        assert replica is not None
        if replica.core.leadership.leader_epoch > epoch_before and not replica.core.is_leader:
            self.manager.truncate_to(replica.log, replica.core.high_watermark, 0)
            replica.truncated()

    def asking_nothing(partition: Partition, latest_epoch: int) -> FollowerFetch | None:
        return next_fetch(partition, -1)

    monkeypatch.setattr(SimulatedBroker, "apply", truncating)
    monkeypatch.setattr(follower, "next_fetch", asking_nothing)
    assert caught(weather=RESTLESS)


def test_kip_279_one_comparison_of_epochs_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    """The follower takes the leader's end offset although it never had the leader's epoch."""

    def compared_once(
        partition: Partition, leader_epoch: int, end_offset: int, end_of_epoch: object
    ) -> int:
        if end_offset < 0:
            return partition.high_watermark
        return min(end_offset, partition.log_end_offset)

    monkeypatch.setattr(follower, "truncation_offset", compared_once)
    assert caught(weather=RESTLESS)


def test_a_new_leader_that_does_not_write_its_epoch_at_once_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(LeaderEpochs, "begin", lambda *_: None)
    assert caught(weather=HASTY, first=42)


def test_kafka_7164_comparing_epochs_only_with_another_leader_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """Between two epochs of the same leader there may have been another that nobody told of."""
    next_fetch, decide = follower.next_fetch, following.decide
    trusted: dict[int, int] = {}

    def asking_others(partition: Partition, latest_epoch: int) -> FollowerFetch | None:
        fetch = next_fetch(partition, latest_epoch)
        if fetch is None:
            trusted.pop(id(partition), None)
        elif fetch.leader == trusted.get(id(partition)):
            return fetch._replace(last_fetched_epoch=-1)
        return fetch

    def trusting(replica: Replica, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
        step = decide(replica, fetch, answer)
        if isinstance(step, Append):
            trusted[id(replica.core)] = fetch.leader
        return step

    monkeypatch.setattr(follower, "next_fetch", asking_others)
    monkeypatch.setattr(following, "decide", trusting)
    assert caught(weather=HASTY)


def test_a_follower_that_never_truncates_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    decide = following.decide

    def keeping_all(replica: Replica, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
        step = decide(replica, fetch, answer)
        return BackOff(ErrorCode.NONE) if isinstance(step, TruncateTo) else step

    monkeypatch.setattr(following, "decide", keeping_all)
    assert "comes-to-rest" in caught()


# Fencing


def test_kip_320_a_follower_that_takes_answers_of_a_deposed_leader_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    decide = following.decide

    def taking_all(replica: Replica, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
        now = following.next_fetch(replica)
        if now is None or fetch.fetch_offset != now.fetch_offset:
            return BackOff(ErrorCode.NONE)
        return decide(replica, now, answer)

    monkeypatch.setattr(following, "decide", taking_all)
    assert caught(weather=HASTY, first=66)


def test_kip_320_a_leader_without_fencing_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    """It takes the progress of a follower in another epoch for progress in its own."""
    monkeypatch.setattr(Partition, "fence", lambda self, current_leader_epoch: ErrorCode.NONE)
    assert "committed" in caught(weather=RESTLESS, first=56)


def test_kip_380_obeying_what_was_meant_for_an_earlier_life_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    check = ControlFence.check

    def whatever_the_broker_epoch(fence: ControlFence, controller_epoch: int, _: int) -> ErrorCode:
        return check(fence, controller_epoch, UNKNOWN_EPOCH)

    monkeypatch.setattr(ControlFence, "check", whatever_the_broker_epoch)
    assert "one-leader-per-epoch" in caught()


def test_kip_392_a_follower_that_serves_what_it_may_still_truncate_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    read = leading.read

    def to_its_end(replica: Replica, *args: Any, **more: Any) -> ReadOutcome:
        high_watermark = replica.core.high_watermark
        if not signature(read).bind(replica, *args, **more).arguments.get("leader_only", True):
            replica.core.high_watermark = replica.log.log_end_offset
        try:
            return read(replica, *args, **more)
        finally:
            replica.core.high_watermark = high_watermark

    monkeypatch.setattr(leading, "read", to_its_end)
    assert "reads-are-committed" in caught(weather=RESTLESS)


# In-sync replicas and the high watermark


def test_kip_497_a_change_of_the_isr_without_the_partition_epoch_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(isr, "_is_outdated", lambda current, proposal: False)
    assert "committed" in caught(weather=ECHOING, first=89)


def test_kip_497_a_leader_that_does_not_count_whom_it_asked_to_add_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    advance = Partition._advance_high_watermark

    def without_proposal(self: Partition) -> bool:
        proposal, self.proposal = self.proposal, None
        try:
            return advance(self)
        finally:
            self.proposal = proposal

    monkeypatch.setattr(Partition, "_advance_high_watermark", without_proposal)
    assert "committed" in caught()


def test_a_high_watermark_ahead_of_the_followers_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def own_end(self: Partition) -> bool:
        moved = self.log_end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, self.log_end_offset)
        return moved

    monkeypatch.setattr(Partition, "_advance_high_watermark", own_end)
    assert "high-watermark-within-isr" in caught()


def test_kafka_15583_a_high_watermark_that_moves_below_min_in_sync_replicas_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """Then an eligible replica lacks what was committed without it."""
    advance = Partition._advance_high_watermark

    def whatever_the_minimum(self: Partition) -> bool:
        minimum, self.min_in_sync_replicas = self.min_in_sync_replicas, 1
        try:
            return advance(self)
        finally:
            self.min_in_sync_replicas = minimum

    monkeypatch.setattr(Partition, "_advance_high_watermark", whatever_the_minimum)
    assert "committed" in caught(topics=CAREFUL)


def test_kafka_7128_a_follower_in_sync_by_a_stale_high_watermark_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """A new leader's high watermark may lag behind what the leader before has acknowledged."""

    def is_caught_up(self: Partition, follower: int) -> bool:
        return self.followers[follower].log_end_offset >= self.high_watermark

    monkeypatch.setattr(Partition, "is_caught_up", is_caught_up)
    assert "committed" in caught(weather=RESTLESS, first=45)


def test_kip_903_a_replica_that_joins_by_the_fetches_of_an_earlier_life_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def without_epochs(self: Partition, wanted: list[int]) -> tuple[ProposedReplica, ...]:
        self.proposal = tuple(ProposedReplica(replica, -1) for replica in wanted)
        return self.proposal

    monkeypatch.setattr(Partition, "_propose", without_epochs)
    assert "committed" in caught(weather=STORMY, first=11)


def test_a_silent_replica_that_joins_by_its_last_known_end_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """By the clock and without the broker epoch of a fetch, as it once was."""
    shrink = Partition.propose_to_shrink

    def by_the_clock(self: Partition, now_ms: float, max_lag_ms: float) -> object:
        proposed = shrink(self, now_ms, max_lag_ms)
        if proposed is not None or not self._may_propose():
            return proposed
        members = self.leadership.in_sync_replicas
        joining = [r for r in self.followers if r not in members and self.is_caught_up(r)]
        if not joining:
            return None
        self.proposal = tuple(ProposedReplica(replica, -1) for replica in (*members, *joining))
        return self.proposal

    monkeypatch.setattr(Partition, "propose_to_shrink", by_the_clock)
    assert "committed" in caught(weather=STORMY, first=66)


# Elections


def test_an_unclean_election_while_in_sync_replicas_exist_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def first_live(
        partition: PartitionImage, is_live: Callable[[int], bool], **_: object
    ) -> PartitionImage | None:
        for replica in partition.replicas:
            if is_live(replica):
                return elections.led_by(partition, replica, (replica,))
        return None

    monkeypatch.setattr(elections, "elect", first_live)
    assert caught()


def test_a_broker_that_restarts_unnoticed_and_stays_in_sync_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(membership, "_as_trusted", lambda view, topic, partition, *_: partition)
    assert caught(weather=STORMY)


def test_kip_966_trusting_the_last_replica_standing_blindly_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def trusting(
        partition: PartitionImage, broker_id: int, minimum: int, *, keeps_all: bool
    ) -> PartitionImage:
        return without(partition, broker_id, minimum, keeps_all=True)

    monkeypatch.setattr(membership, "without", trusting)
    assert caught(weather=STORMY, topics=CAREFUL, first=10)


def test_kip_966_a_clean_stop_that_hides_an_unclean_one_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """The mark of the last stop says nothing about the one before it."""
    trusted = membership._as_trusted

    def by_the_mark(
        view: Any, topic: str, partition: PartitionImage, known: Any, broker: BrokerInfo
    ) -> PartitionImage:
        if known is not None and known.is_fenced and broker.unbroken_since >= 0:
            return partition
        return trusted(view, topic, partition, known, broker)

    monkeypatch.setattr(membership, "_as_trusted", by_the_mark)
    assert caught(weather=BLIND, topics=CAREFUL, first=98)


def test_a_move_that_completes_before_its_new_replicas_are_in_sync_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def at_once(view: View, topic: str, partition: PartitionImage) -> PartitionImage:
        isr_ = (*partition.isr, *reassignment.target_of(partition))
        return completed(view, topic, partition._replace(isr=tuple(dict.fromkeys(isr_))))

    completed = reassignment.completed
    monkeypatch.setattr(reassignment, "completed", at_once)
    assert "committed" in caught(weather=MOVING, brokers=4)


# The controller


def test_kafka_6082_a_replaced_controller_that_still_writes_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(controller, "Check", lambda path, version: Check(path, -1))
    assert "one-controller-owns-the-store" in caught(weather=LEADERLESS)


def test_kafka_14154_obeying_a_controller_that_has_been_replaced_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """The broker epoch is checked, the controller's is not."""

    def by_the_broker_epoch(self: ControlFence, controller_epoch: int, broker_epoch: int) -> object:
        return ErrorCode.STALE_BROKER_EPOCH if broker_epoch < self.broker_epoch else ErrorCode.NONE

    monkeypatch.setattr(ControlFence, "check", by_the_broker_epoch)
    assert "controller-epochs-rise" in caught(weather=LEADERLESS)


def test_kafka_14154_a_controller_epoch_that_does_not_rise_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:

    def as_before(identity: Identity, broker_id: int, now_ms: int) -> Candidacy:
        last = identity._replace(controller_epoch=max(identity.controller_epoch - 1, 0))
        return candidacy(last, broker_id, now_ms)

    monkeypatch.setattr(controller, "candidacy", as_before)
    assert "one-controller-per-epoch" in caught(weather=LEADERLESS)


def test_kafka_9769_a_decision_that_counts_though_the_store_was_lost_in_its_middle_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """It goes on with what it wanted to store, and tells it to the brokers."""
    write = controller.SimulatedController._write

    def believing(self: controller.SimulatedController, operations: Any) -> None:
        with suppress(StoreUnavailable):
            write(self, operations)
        self._must_load = False

    monkeypatch.setattr(controller.SimulatedController, "_write", believing)
    assert "one-controller-owns-the-store" in caught(weather=LOSING_THE_STORE)


def test_kafka_9769_going_on_from_before_a_decision_that_was_stored_in_part_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """After a lost store it does not read what is stored by now."""
    write = controller.SimulatedController._write

    def remembering(self: controller.SimulatedController, operations: Any) -> None:
        try:
            write(self, operations)
        finally:
            self._must_load = False

    monkeypatch.setattr(controller.SimulatedController, "_write", remembering)
    assert "one-controller-owns-the-store" in caught(weather=LOSING_THE_STORE)


def test_a_new_controller_that_misses_restarts_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """It takes those who are registered now for those who always were."""

    load = controller.SimulatedController._load_if_needed

    def believing(self: controller.SimulatedController) -> None:
        is_new = not self.knows_the_store
        load(self)
        if is_new:
            registered = decode_brokers(self._store.tree(paths.BROKER_IDS))
            self.image = replace(self.image, brokers=registered)

    monkeypatch.setattr(controller.SimulatedController, "_load_if_needed", believing)
    assert caught(weather=STORMY | LEADERLESS)


# Disks


def test_a_late_sync_of_another_leader_epoch_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    def whenever(self: Replica, durable_end_offset: int, leader_epoch: int) -> None:
        if self.flush_due_offset is not None and self.flush_due_offset <= durable_end_offset:
            self.flush_due_offset = None
        self.core.appended(durable_end_offset)

    monkeypatch.setattr(Replica, "flushed", whenever)
    assert caught(weather=HASTY, topics=SYNCED)


def test_an_acknowledgement_before_the_sync_that_it_promises_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(Replica, "_must_flush", lambda *_: False)
    assert "committed" in caught(weather=STORMY, topics=SYNCED)


def test_counting_what_an_unclean_stop_left_unsynced_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    def counting_all(self: Replica) -> None:
        self.flush_due_offset = None

    monkeypatch.setattr(Replica, "_forget_unsynced", counting_all)
    weather = {"kill": 60, "crash_within": 60, "lose_power": 80}
    assert "committed" in caught(weather=weather, topics=SYNCED, first=36)


def test_a_log_that_cannot_start_inside_a_batch_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    """DeleteRecords moves the leader's log start there, and a new follower begins with it."""
    monkeypatch.setattr(following, "restart_inside_a_batch", lambda *_: None)
    weather = {"delete_records": 200, "lose_power": 60}
    assert caught(weather=weather, topics=CLEAN | {"retention_bytes": 2500, "flush_messages": None})


# Transactions


def test_reading_records_of_open_transactions_is_caught(monkeypatch: Patch, caught: Caught) -> None:
    monkeypatch.setattr(PartitionLog, "last_stable_offset", lambda self, offset: offset)
    assert "aborted-is-never-read" in caught(first=8)


def test_not_telling_consumers_what_was_aborted_is_caught(
    monkeypatch: Patch, caught: Caught
) -> None:
    monkeypatch.setattr(PartitionLog, "aborted_transactions", lambda *_: [])
    assert "aborted-is-never-read" in caught()
