"""CORE: how a replica follows its leader: what to fetch and where to truncate.

Pure functions on the replica's state, called through `replication.replica`. The fetch loop and the
simulator send `next_fetch` and do what `decide` says about the response. There is no separate
truncation phase: every fetch names the epoch of the last record before it, and the leader compares
it with its own history (KIP-595's form of KIP-101 and KIP-279). A follower truncates by leader
epoch, never by its high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from floodmark.replication.partition import Partition
from floodmark.vocabulary import NO_LEADER, NO_LEADER_EPOCH
from floodmark.wire.errors import ErrorCode


class FollowerFetch(NamedTuple):
    """A follower's request to its leader, and the state in which it was made."""

    leader: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


class FollowerAnswer(NamedTuple):
    """A leader's response, without the records.

    A `diverging_epoch` means that the logs diverge: in the leader's log, that epoch, the largest
    one not above the requested one, ends at `diverging_end_offset`.
    """

    error_code: ErrorCode
    high_watermark: int = -1
    diverging_epoch: int | None = None
    diverging_end_offset: int = -1
    log_start_offset: int = -1


class Append(NamedTuple):
    """The records continue our log: append them, then adopt high watermark and log start."""

    leader_high_watermark: int
    leader_log_start_offset: int = -1


class TruncateTo(NamedTuple):
    """Truncate the log and its epochs here, then fetch again."""

    offset: int


class StartAt(NamedTuple):
    """The leader lacks the records after our log, or has deleted all that our log has: drop all and
    continue at its log start."""

    offset: int


class FindOffsets(NamedTuple):
    """The leader's log does not contain our fetch offset: ask for its start and end."""


class BackOff(NamedTuple):
    """Ignore this response. After an error, wait before the next fetch."""

    error_code: ErrorCode


Step: TypeAlias = Append | TruncateTo | StartAt | FindOffsets | BackOff
EpochEnd: TypeAlias = Callable[[int], tuple[int, int]]
"""The largest epoch of our log not above the given one, and its end; (-1, -1) if none."""


def next_fetch(partition: Partition, latest_epoch: int) -> FollowerFetch | None:
    """A follower's next fetch. None while no other broker leads.

    `latest_epoch` is the last of the log's epochs, or -1 if there is none.
    """
    leadership = partition.leadership
    if partition.is_leader or leadership.leader == NO_LEADER:
        return None
    return FollowerFetch(
        leadership.leader, leadership.leader_epoch, partition.log_end_offset, latest_epoch
    )


def decide(
    partition: Partition,
    latest_epoch: int,
    fetch: FollowerFetch,
    answer: FollowerAnswer,
    end_of_epoch: EpochEnd,
) -> Step:
    """What to do with the response to a fetch.

    Ignores a response from another leader epoch, or to another state of the log (KIP-320).
    """
    if fetch != next_fetch(partition, latest_epoch):
        return BackOff(ErrorCode.NONE)
    if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return FindOffsets()
    if answer.error_code is not ErrorCode.NONE:
        return BackOff(answer.error_code)
    if answer.diverging_epoch is not None:
        return TruncateTo(
            truncation_offset(
                partition, answer.diverging_epoch, answer.diverging_end_offset, end_of_epoch
            )
        )
    if _may_have_diverged_unseen(partition, latest_epoch, answer):
        return StartAt(answer.log_start_offset)
    return Append(answer.high_watermark, answer.log_start_offset)


def _may_have_diverged_unseen(
    partition: Partition, latest_epoch: int, answer: FollowerAnswer
) -> bool:
    """Whether our log has uncommitted records that the leader had no means to compare.

    Leaders forget the epochs below their log start. If all of our log lies there and its end is
    not from this leader, it may be another history, and what it says about producers would let us
    take a new batch for a duplicate. Nothing is lost with it: the leader has deleted it all.
    """
    return (
        answer.log_start_offset >= partition.log_end_offset > partition.high_watermark
        and latest_epoch < partition.leadership.leader_epoch
    )


def truncation_offset(
    partition: Partition, leader_epoch: int, end_offset: int, end_of_epoch: EpochEnd
) -> int:
    """Where to truncate, given the end of the leader's largest epoch not above our last one.

    If we lack that epoch, our history is cut where the next smaller one ends, and the next fetch
    compares again, until both agree (KIP-279).
    """
    own_epoch, own_end_offset = end_of_epoch(leader_epoch)
    if NO_LEADER_EPOCH in (leader_epoch, own_epoch):
        # No common epoch history: only what was committed can be trusted.
        return partition.high_watermark
    if own_epoch == leader_epoch:
        return min(own_end_offset, end_offset, partition.log_end_offset)
    return min(own_end_offset, partition.log_end_offset)


def after_out_of_range(
    partition: Partition, leader_log_start_offset: int, leader_log_end_offset: int
) -> Step:
    """Where to continue if the leader's log does not contain the requested offset."""
    if partition.log_end_offset < leader_log_start_offset:
        return StartAt(leader_log_start_offset)
    if partition.log_end_offset > leader_log_end_offset:
        return TruncateTo(leader_log_end_offset)
    return BackOff(ErrorCode.NONE)
