"""The follower's operations on a partition: copying from its leader.

Called by `replication.fetcher` and by the simulator. `replication.follower` (PURE) makes the
decisions; this module applies them to the log.
"""

from __future__ import annotations

from floodmark.records.batch import HEADER_BYTES, Buffer, read_header
from floodmark.replication import follower
from floodmark.replication.follower import (
    Append,
    BackOff,
    FollowerAnswer,
    FollowerFetch,
    StartAt,
    Step,
)
from floodmark.replication.replica import Replica
from floodmark.wire.errors import NO_ERROR


def next_fetch(replica: Replica) -> FollowerFetch | None:
    """The next fetch. None without a leader, during a truncation, or before a required flush: a
    fetch at an offset tells the leader that all earlier records are durable."""
    if replica.flush_due_offset is not None or replica.log.is_truncating:
        return None
    return follower.next_fetch(replica.core, replica.log.leader_epochs.latest)


def decide(replica: Replica, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
    """What to do with the response to a fetch. During a truncation the response is outdated: the
    thread has cut the epochs, but `core` still has the old end."""
    if replica.flush_due_offset is not None or replica.log.is_truncating:
        return BackOff(NO_ERROR)
    log = replica.log
    return follower.decide(
        replica.core, log.leader_epochs.latest, fetch, answer, log.end_offset_for_epoch
    )


def decide_after_out_of_range(
    replica: Replica, fetch: FollowerFetch, leader_log_start_offset: int, leader_log_end_offset: int
) -> Step:
    """What to do after the leader has responded to FindOffsets."""
    if fetch != next_fetch(replica):
        return BackOff(NO_ERROR)
    return follower.after_out_of_range(replica.core, leader_log_start_offset, leader_log_end_offset)


def restart_inside_a_batch(
    replica: Replica, records: Buffer, step: Append
) -> tuple[StartAt, Append] | None:
    """How to take records whose first batch begins before the end of our log. None if it does not.

    A fetch from inside a batch returns the whole batch, and the leader's log may start there after
    DeleteRecords. Our log then ends there because it is empty and starts where the leader's does,
    or because it has diverged: leaders do not remember epochs below their log start, so they cannot
    tell that our last batch is not theirs. It has no record that the leader still has, so it
    restarts with the batch. What was deleted stays hidden.
    """
    log = replica.log
    start_offset = max(log.log_start_offset, step.leader_log_start_offset)
    if log.log_end_offset > start_offset or len(records) < HEADER_BYTES:
        return None
    first = read_header(records)
    if not first.base_offset < log.log_end_offset <= first.last_offset:
        return None
    return StartAt(first.base_offset), step._replace(leader_log_start_offset=start_offset)


def append_as_follower(replica: Replica, records: Buffer, step: Append, now_ms: int) -> None:
    """Appends the leader's records and adopts its high watermark and log start."""
    replica.log.append_as_follower(records, now_ms)
    replica.copied(step.leader_high_watermark, step.leader_log_start_offset)
