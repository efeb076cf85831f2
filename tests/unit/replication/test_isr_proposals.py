"""How a leader asks for a change of the in-sync replicas, and what holds meanwhile."""

from __future__ import annotations

import pytest

from floodmark.replication.partition import Leadership, Partition, ProposedReplica
from floodmark.wire.errors import ErrorCode

LAG_MS = 100.0


def leader(*isr: int, log_end_offset: int = 10, high_watermark: int = 10) -> Partition:
    partition = Partition(1, log_end_offset=log_end_offset, high_watermark=high_watermark)
    partition.apply(Leadership(1, 3, 5, isr, (1, 2, 3)), now_ms=0)
    return partition


def decided(partition: Partition, isr: tuple[int, ...], partition_epoch: int) -> None:
    partition.apply(Leadership(1, 3, partition_epoch, isr, (1, 2, 3)), now_ms=0)


def test_a_replica_that_was_asked_for_holds_the_high_watermark_at_once():
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    assert partition.propose_to_add(2, 1, LAG_MS) == (
        ProposedReplica(1, -1),
        ProposedReplica(2, 22),
    )
    # The controller may have said yes already, and could elect replica 2.
    partition.appended(12)
    assert partition.high_watermark == 10
    decided(partition, (1, 2), 6)
    assert partition.high_watermark == 10
    partition.fetched_by(2, 12, now_ms=2, broker_epoch=22)
    assert partition.high_watermark == 12


def test_a_replica_to_be_removed_holds_the_high_watermark_until_it_is():
    partition = leader(1, 2)
    partition.fetched_by(2, 10, now_ms=0)
    partition.appended(12)
    assert partition.propose_to_shrink(LAG_MS + 1, LAG_MS) == (ProposedReplica(1, -1),)
    assert partition.high_watermark == 10
    decided(partition, (1,), 6)
    assert partition.high_watermark == 12


def test_one_proposal_is_under_way_at_a_time():
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1)
    assert partition.propose_to_add(2, 1, LAG_MS) is not None
    partition.fetched_by(3, 10, now_ms=1)
    assert partition.propose_to_add(3, 1, LAG_MS) is None


def test_a_refused_proposal_no_longer_counts():
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    proposal = partition.propose_to_add(2, 1, LAG_MS)
    assert proposal is not None
    partition.proposal_failed(proposal, ErrorCode.INELIGIBLE_REPLICA)
    partition.appended(12)
    assert partition.high_watermark == 12


def test_a_late_refusal_of_an_earlier_proposal_changes_nothing():
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    earlier = partition.propose_to_add(2, 1, LAG_MS)
    assert earlier is not None
    partition.proposal_failed(earlier, ErrorCode.INELIGIBLE_REPLICA)
    partition.fetched_by(2, 10, now_ms=2, broker_epoch=23)
    assert partition.propose_to_add(2, 2, LAG_MS) is not None
    partition.proposal_failed(earlier, ErrorCode.INELIGIBLE_REPLICA)
    partition.appended(12)
    assert partition.high_watermark == 10


def test_a_proposal_keeps_the_broker_epoch_on_which_it_was_made():
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    partition.propose_to_add(2, 1, LAG_MS)
    # Restarted, with less: the proposal was not about this one.
    partition.fetched_by(2, 4, now_ms=2, broker_epoch=23)
    assert partition.proposal == (ProposedReplica(1, -1), ProposedReplica(2, 22))


def test_a_fetch_of_an_earlier_life_does_not_count():
    partition = leader(1, 2, high_watermark=0)
    partition.fetched_by(2, 4, now_ms=1, broker_epoch=23)
    partition.fetched_by(2, 10, now_ms=2, broker_epoch=22)
    assert partition.high_watermark == 4


def test_to_be_in_sync_a_follower_needs_all_from_before_the_leaders_epoch():
    """The high watermark of a new leader may be older than what was acknowledged before."""
    partition = leader(1, log_end_offset=10, high_watermark=5)
    partition.high_watermark = 5
    partition.fetched_by(2, 7, now_ms=1)
    assert not partition.is_caught_up(2)
    partition.fetched_by(2, 10, now_ms=2)
    assert partition.is_caught_up(2)


def test_a_silent_follower_does_not_join():
    """It had all once, but may have restarted with less since it was last heard of."""
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    assert partition.propose_to_add(2, 2 + LAG_MS, LAG_MS) is None
    assert partition.propose_to_shrink(2 + LAG_MS, LAG_MS) is None
    partition.fetched_by(2, 10, now_ms=2 + LAG_MS, broker_epoch=22)
    assert partition.propose_to_add(2, 2 + LAG_MS, LAG_MS) is not None


@pytest.mark.parametrize(
    "error_code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION]
)
def test_an_outdated_proposal_holds_the_high_watermark_until_the_next_decision(error_code):
    """An earlier copy of it may have been stored, so the follower may be in sync by now."""
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    proposal = partition.propose_to_add(2, 1, LAG_MS)
    assert proposal is not None
    partition.proposal_failed(proposal, error_code)
    assert partition.proposal_to_send() is None
    partition.appended(12)
    assert partition.high_watermark == 10
    decided(partition, (1,), 6)
    assert partition.high_watermark == 12


def test_a_proposal_is_sent_again_after_a_controller_that_knew_less():
    """KAFKA-14154: the one that leads the cluster now has not seen it yet."""
    partition = leader(1)
    partition.fetched_by(2, 10, now_ms=1, broker_epoch=22)
    proposal = partition.propose_to_add(2, 1, LAG_MS)
    assert proposal is not None
    partition.proposal_failed(proposal, ErrorCode.NOT_CONTROLLER)
    assert partition.proposal_to_send() == proposal
