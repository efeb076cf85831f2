"""High watermark, in-sync replicas and fencing, on the pure core."""

from floodmark.replication.partition import Leadership, Partition
from floodmark.wire.errors import ErrorCode


def leader_of(
    *replicas: int, isr=None, leader_epoch=1, log_end_offset=0, min_in_sync_replicas=1
) -> Partition:
    partition = Partition(
        replicas[0],
        log_end_offset=log_end_offset,
        high_watermark=0,
        min_in_sync_replicas=min_in_sync_replicas,
    )
    partition.apply(
        Leadership(replicas[0], leader_epoch, 0, tuple(isr or replicas), replicas), now_ms=0
    )
    return partition


def test_alone_the_leader_moves_the_high_watermark_with_every_append():
    partition = leader_of(1)
    assert partition.appended(5)
    assert partition.high_watermark == 5


def test_the_high_watermark_waits_for_the_slowest_in_sync_replica():
    partition = leader_of(1, 2, 3)
    partition.appended(10)
    assert partition.high_watermark == 0
    partition.fetched_by(2, 10, now_ms=1)
    assert partition.high_watermark == 0
    partition.fetched_by(3, 7, now_ms=1)
    assert partition.high_watermark == 7


def test_a_replica_outside_the_in_sync_set_holds_nothing_up():
    partition = leader_of(1, 2, 3, isr=(1, 2))
    partition.appended(10)
    partition.fetched_by(2, 10, now_ms=1)
    assert partition.high_watermark == 10
    assert not partition.is_caught_up(3)
    partition.fetched_by(3, 10, now_ms=2)
    assert partition.is_caught_up(3)


def test_the_high_watermark_never_goes_back_while_leading():
    partition = leader_of(1, 2)
    partition.appended(10)
    partition.fetched_by(2, 10, now_ms=1)
    partition.fetched_by(2, 4, now_ms=2)
    assert partition.high_watermark == 10


def test_a_follower_lags_by_time_since_it_was_caught_up():
    partition = leader_of(1, 2)
    partition.appended(10)
    partition.fetched_by(2, 10, now_ms=1000)
    partition.appended(20)
    assert partition.lagging(now_ms=10_000, max_lag_ms=10_000) == ()
    assert partition.lagging(now_ms=11_001, max_lag_ms=10_000) == (2,)


def test_a_follower_that_keeps_pace_never_lags_though_it_never_sees_the_end():
    partition = leader_of(1, 2)
    for step in range(1, 100):
        partition.appended(step * 10)
        partition.fetched_by(2, (step - 1) * 10, now_ms=step * 1000)
        assert partition.lagging(now_ms=step * 1000, max_lag_ms=1500) == ()


def test_a_follower_at_the_end_does_not_lag_however_long_nothing_is_written():
    partition = leader_of(1, 2)
    partition.appended(10)
    partition.fetched_by(2, 10, now_ms=0)
    assert partition.lagging(now_ms=1e9, max_lag_ms=10_000) == ()


def test_a_followers_high_watermark_is_bounded_by_its_own_log():
    partition = Partition(2, log_end_offset=0, high_watermark=0)
    partition.apply(Leadership(1, 1, 0, (1, 2), (1, 2)), now_ms=0)
    partition.followed(log_end_offset=5, leader_high_watermark=9)
    assert partition.high_watermark == 5
    partition.truncated(3)
    assert partition.high_watermark == 3


def test_an_older_decision_of_the_controller_changes_nothing():
    partition = leader_of(1, 2, leader_epoch=5)
    assert not partition.apply(Leadership(2, 4, 9, (1, 2), (1, 2)), now_ms=0)
    assert partition.is_leader


def test_requests_are_fenced_by_their_leader_epoch():
    partition = leader_of(1, leader_epoch=5)
    assert partition.fence(-1) is ErrorCode.NONE
    assert partition.fence(5) is ErrorCode.NONE
    assert partition.fence(4) is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.fence(6) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_min_in_sync_replicas_counts_no_more_than_there_are():
    assert leader_of(1, 2, 3, isr=(1, 2), min_in_sync_replicas=2).has_enough_in_sync_replicas()
    assert not leader_of(1, 2, 3, isr=(1, 2), min_in_sync_replicas=3).has_enough_in_sync_replicas()
    assert leader_of(1, min_in_sync_replicas=2).has_enough_in_sync_replicas()


def test_the_high_watermark_stands_still_below_min_in_sync_replicas():
    """KAFKA-15583: what only a too small set has is not shown to readers, acks=1 or not."""
    partition = leader_of(1, 2, 3, isr=(1,), min_in_sync_replicas=2)
    partition.appended(10)
    assert partition.high_watermark == 0
    partition.apply(Leadership(1, 1, 1, (1, 2), (1, 2, 3)), now_ms=1)
    partition.fetched_by(2, 8, now_ms=2)
    assert partition.high_watermark == 8


def test_a_single_replica_moves_its_high_watermark_whatever_min_in_sync_replicas_says():
    partition = leader_of(1, min_in_sync_replicas=2)
    partition.appended(5)
    assert partition.high_watermark == 5


def test_a_leader_that_is_named_in_a_known_epoch_begins_like_any_other():
    """After a restart: its high watermark may be older than what it has acknowledged before."""
    partition = Partition(1, log_end_offset=10, high_watermark=5)
    partition.apply(Leadership(-1, 3, 0, (1,), (1, 2)), now_ms=0)
    partition.apply(Leadership(1, 3, 0, (1,), (1, 2)), now_ms=0)
    assert partition.leader_epoch_start_offset == 10
    partition.fetched_by(2, 7, now_ms=1)
    assert not partition.is_caught_up(2)
