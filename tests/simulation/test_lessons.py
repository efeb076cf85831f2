"""Each known mistake, put back on purpose, is caught by the simulator.

A test per lesson that others paid for. A mistake that no schedule catches would mean that the
simulator, which is to keep us from making it again, does not look there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from floodmark.controller import elections, isr
from floodmark.metadata.image import PartitionImage
from floodmark.replication import follower
from floodmark.replication.follower import Append, BackOff, FollowerFetch, TruncateTo
from floodmark.replication.partition import Leadership, Partition, ProposedReplica
from floodmark.replication.replica import Replica
from floodmark.testing.simulated_broker import SimulatedBroker
from floodmark.testing.simulated_network import LeaderAndIsr, ReplicaFetchAnswer
from floodmark.testing.simulator import Simulation, SimulationFailure
from floodmark.wire.errors import ErrorCode

SCHEDULES = 600

# Weights of faults: which weather brings a mistake to light soonest.
RESTLESS = {"move_leader": 80, "cut_link": 40}
HASTY = {"move_leader": 60, "repeat": 100, "drop": 10}
ECHOING = {"repeat": 200, "drop": 40}

Caught = Callable[..., str]


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> Caught:
    """Runs schedules until one fails, and says how; without the mistake the same one passes."""

    def run(
        broker_class: type[SimulatedBroker] = SimulatedBroker,
        *,
        weather: Mapping[str, int] | None = None,
    ) -> str:
        for seed in range(SCHEDULES):
            try:
                Simulation(seed, brokers=3, weather=weather, broker_class=broker_class).run()
            except SimulationFailure as failure:
                monkeypatch.undo()
                Simulation(seed, brokers=3, weather=weather).run()
                return str(failure).splitlines()[0]
        pytest.fail(f"{SCHEDULES} schedules did not notice the mistake")

    return run


def test_kip_101_truncating_by_high_watermark_is_caught(caught: Caught) -> None:
    """The follower trusts its own high watermark and asks the leader nothing about epochs."""

    class TruncatesByHighWatermark(SimulatedBroker):
        truncated_in_epoch = -1

        def _apply(self, partition: PartitionImage) -> None:
            super()._apply(partition)
            core, log = self.replica.core, self.replica.log
            leader_epoch = core.leadership.leader_epoch
            if not core.is_leader and leader_epoch != self.truncated_in_epoch:
                self.truncated_in_epoch = leader_epoch
                self.manager.truncate_to(log, core.high_watermark, self.clock.now_ms())
                core.truncated(log.log_end_offset)

        def _next_fetch(self) -> FollowerFetch | None:
            fetch = super()._next_fetch()
            return None if fetch is None else fetch._replace(last_fetched_epoch=-1)

        def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
            latest = self.replica.log.leader_epochs.latest
            fetch = answered.fetch._replace(last_fetched_epoch=latest)
            return super()._decide(answered._replace(fetch=fetch))

    assert caught(TruncatesByHighWatermark)


def test_kip_279_one_comparison_of_epochs_is_caught(caught: Caught) -> None:
    """The follower takes the leader's end offset although it never had the leader's epoch."""

    class ComparesOnce(SimulatedBroker):
        def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
            step = super()._decide(answered)
            if isinstance(step, TruncateTo) and answered.answer.diverging_end_offset >= 0:
                end_offset = answered.answer.diverging_end_offset
                return TruncateTo(min(end_offset, self.replica.log.log_end_offset))
            return step

    assert caught(ComparesOnce)


def test_kip_320_a_follower_that_takes_answers_of_a_deposed_leader_is_caught(
    caught: Caught,
) -> None:
    class TakesAnyAnswer(SimulatedBroker):
        def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
            core = self.replica.core
            now = self._next_fetch()
            if now is None or answered.fetch.fetch_offset != core.log_end_offset:
                return BackOff(ErrorCode.NONE)
            return super()._decide(answered._replace(fetch=now))

    assert caught(TakesAnyAnswer, weather=HASTY)


def test_kip_320_a_leader_without_fencing_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    """It takes the progress of a follower of another reign for progress in its own."""
    monkeypatch.setattr(Partition, "fence", lambda self, current_leader_epoch: ErrorCode.NONE)
    assert "committed" in caught(weather=RESTLESS)


def test_kafka_7164_comparing_epochs_only_with_another_leader_is_caught(caught: Caught) -> None:
    """Between two reigns of the same leader there may have been another that nobody told of."""

    class TrustsTheSameLeader(SimulatedBroker):
        trusted = -1

        def _next_fetch(self) -> FollowerFetch | None:
            fetch = super()._next_fetch()
            if fetch is None:
                self.trusted = -1
            elif fetch.leader == self.trusted:
                return fetch._replace(last_fetched_epoch=-1)
            return fetch

        def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
            latest = self.replica.log.leader_epochs.latest
            step = super()._decide(
                answered._replace(fetch=answered.fetch._replace(last_fetched_epoch=latest))
            )
            if isinstance(step, Append):
                self.trusted = answered.fetch.leader
            return step

    assert caught(TrustsTheSameLeader, weather=HASTY)


def test_kip_497_a_change_of_the_isr_without_the_partition_epoch_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    checked = isr._check_epochs

    def unchecked(current: PartitionImage, broker_id: int, proposal: isr.IsrProposal) -> ErrorCode:
        error = checked(current, broker_id, proposal)
        return ErrorCode.NONE if error is ErrorCode.INVALID_UPDATE_VERSION else error

    monkeypatch.setattr(isr, "_check_epochs", unchecked)
    assert "committed" in caught(weather=ECHOING)


def test_kip_497_a_leader_that_does_not_count_whom_it_asked_to_add_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
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


def test_an_unclean_election_while_in_sync_replicas_exist_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    def first_live(
        partition: PartitionImage, is_live: elections.IsLive, *, unclean_allowed: bool
    ) -> PartitionImage | None:
        for replica in partition.replicas:
            if is_live(replica):
                return elections.led_by(partition, replica, (replica,))
        return None

    monkeypatch.setattr(elections, "elect", first_live)
    assert caught()


def test_a_new_leader_that_does_not_write_its_epoch_at_once_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    def applied_only(self: Replica, leadership: Leadership, now_ms: float) -> bool:
        return self.core.apply(leadership, now_ms)

    monkeypatch.setattr(Replica, "lead_or_follow", applied_only)
    assert "committed" in caught(weather=HASTY)


def test_a_high_watermark_ahead_of_the_followers_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    def own_end(self: Partition) -> bool:
        moved = self.log_end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, self.log_end_offset)
        return moved

    monkeypatch.setattr(Partition, "_advance_high_watermark", own_end)
    assert "high-watermark-within-isr" in caught()


def test_kafka_7128_a_follower_in_sync_by_a_stale_high_watermark_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    """A new leader's high watermark may lag behind what the leader before has acknowledged."""

    def caught_up(self: Partition) -> tuple[int, ...]:
        return tuple(
            replica
            for replica, progress in self.followers.items()
            if replica not in self.leadership.in_sync_replicas
            and progress.log_end_offset >= self.high_watermark
        )

    monkeypatch.setattr(Partition, "caught_up", caught_up)
    assert "committed" in caught(weather=RESTLESS)


def test_kip_380_obeying_what_was_meant_for_an_earlier_life_is_caught(caught: Caught) -> None:
    class ObeysAll(SimulatedBroker):
        def _is_for_us(self, told: LeaderAndIsr) -> bool:
            return True

    assert "one-leader-per-epoch" in caught(ObeysAll)


def test_kip_903_a_replica_that_joins_by_the_fetches_of_an_earlier_life_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    propose = Partition.propose_in_sync_replicas

    def without_epochs(
        self: Partition, now_ms: float, max_lag_ms: float
    ) -> tuple[ProposedReplica, ...] | None:
        if propose(self, now_ms, max_lag_ms) is None or self.proposal is None:
            return None
        self.proposal = tuple(ProposedReplica(replica, -1) for replica, _ in self.proposal)
        return self.proposal

    monkeypatch.setattr(Partition, "propose_in_sync_replicas", without_epochs)
    assert "committed" in caught()


def test_a_broker_that_restarts_unnoticed_and_stays_in_sync_is_caught(
    monkeypatch: pytest.MonkeyPatch, caught: Caught
) -> None:
    monkeypatch.setattr(
        "floodmark.controller.membership._distrusted", lambda partition, broker_id: partition
    )
    assert caught()


def test_a_follower_that_never_truncates_is_caught(caught: Caught) -> None:
    class NeverTruncates(SimulatedBroker):
        def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
            step = super()._decide(answered)
            return BackOff(ErrorCode.NONE) if isinstance(step, TruncateTo) else step

    assert "comes-to-rest" in caught(NeverTruncates)
