"""What a follower fetches and where it truncates, on the pure core."""

from __future__ import annotations

import pytest

from floodmark.replication.follower import (
    Append,
    BackOff,
    FindOffsets,
    FollowerAnswer,
    FollowerFetch,
    StartAt,
    TruncateTo,
    after_out_of_range,
    decide,
    next_fetch,
)
from floodmark.replication.partition import Leadership, Partition
from floodmark.wire.errors import ErrorCode


def follower_at(log_end_offset: int, *, high_watermark: int = 0, leader_epoch: int = 7):
    partition = Partition(2, log_end_offset=log_end_offset, high_watermark=high_watermark)
    partition.apply(Leadership(1, leader_epoch, 0, (1, 2), (1, 2)), now_ms=0)
    return partition


def history(*epochs: tuple[int, int]):
    """end_of_epoch of a log with these (epoch, end offset)."""

    def end_of_epoch(asked: int) -> tuple[int, int]:
        return max((e for e in epochs if e[0] <= asked), default=(-1, -1))

    return end_of_epoch


def test_a_follower_asks_at_its_end_and_names_the_epoch_before():
    assert next_fetch(follower_at(10), latest_epoch=5) == FollowerFetch(1, 7, 10, 5)


def test_a_leader_and_a_replica_without_a_leader_fetch_nothing():
    partition = follower_at(10)
    partition.apply(Leadership(-1, 8, 1, (1, 2), (1, 2)), now_ms=0)
    assert next_fetch(partition, 5) is None
    partition.apply(Leadership(2, 9, 2, (1, 2), (1, 2)), now_ms=0)
    assert next_fetch(partition, 5) is None


def test_records_that_follow_the_log_are_appended():
    partition = follower_at(10)
    answer = FollowerAnswer(ErrorCode.NONE, high_watermark=12)
    assert decide(partition, 5, FollowerFetch(1, 7, 10, 5), answer, history()) == Append(12)


@pytest.mark.parametrize(
    ("high_watermark", "latest_epoch", "leader_log_start", "expected"),
    [
        # Uncommitted, of another leader, and all deleted: it may be another history.
        (8, 5, 10, StartAt(10)),
        # All committed.
        (10, 5, 10, Append(12, 10)),
        # Copied from this leader.
        (8, 7, 10, Append(12, 10)),
        # The leader has a part of it, and knows its epochs.
        (8, 5, 9, Append(12, 9)),
    ],
)
def test_a_log_that_its_leader_could_not_compare_starts_over(
    high_watermark, latest_epoch, leader_log_start, expected
):
    partition = follower_at(10, high_watermark=high_watermark)
    answer = FollowerAnswer(ErrorCode.NONE, high_watermark=12, log_start_offset=leader_log_start)
    fetch = FollowerFetch(1, 7, 10, latest_epoch)
    assert decide(partition, latest_epoch, fetch, answer, history()) == expected


@pytest.mark.parametrize(
    "stale",
    [
        FollowerFetch(1, 6, 10, 5),
        FollowerFetch(3, 7, 10, 5),
        FollowerFetch(1, 7, 9, 5),
        FollowerFetch(1, 7, 10, 4),
    ],
)
def test_an_answer_from_another_reign_or_to_another_log_is_left_alone(stale):
    answer = FollowerAnswer(ErrorCode.NONE, high_watermark=12)
    assert decide(follower_at(10), 5, stale, answer, history()) == BackOff(ErrorCode.NONE)


@pytest.mark.parametrize(
    ("own", "diverging", "expected"),
    [
        # The leader's epoch 5 ends earlier than ours.
        (history((4, 6), (5, 10)), (5, 8), 8),
        # Ours of the same epoch ends earlier: a later one of ours, unknown to the leader, goes.
        (history((4, 6), (5, 10)), (4, 9), 6),
        # We lack the leader's epoch: cut at the end of the next smaller one and compare again.
        (history((2, 3), (5, 10)), (4, 9), 3),
        # Nothing to compare: only what is committed can be trusted.
        (history((5, 10)), (-1, -1), 2),
        (history((5, 10)), (3, 4), 2),
    ],
)
def test_a_follower_truncates_by_leader_epoch(own, diverging, expected):
    epoch, end_offset = diverging
    answer = FollowerAnswer(ErrorCode.NONE, 12, epoch, end_offset)
    partition = follower_at(10, high_watermark=2)
    step = decide(partition, 5, FollowerFetch(1, 7, 10, 5), answer, own)
    assert step == TruncateTo(expected)


def test_an_error_is_waited_out_and_a_missing_offset_is_looked_up():
    fetch = FollowerFetch(1, 7, 10, 5)
    fenced = FollowerAnswer(ErrorCode.FENCED_LEADER_EPOCH)
    assert decide(follower_at(10), 5, fetch, fenced, history()) == BackOff(
        ErrorCode.FENCED_LEADER_EPOCH
    )
    missing = FollowerAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert decide(follower_at(10), 5, fetch, missing, history()) == FindOffsets()


def test_out_of_range_a_follower_goes_to_the_nearer_end_of_the_leaders_log():
    assert after_out_of_range(follower_at(10), 15, 30) == StartAt(15)
    assert after_out_of_range(follower_at(10), 0, 8) == TruncateTo(8)
    assert after_out_of_range(follower_at(10), 0, 30) == BackOff(ErrorCode.NONE)
