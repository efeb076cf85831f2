"""What a follower does with a partition of this broker: copy from its leader.

Called by `replication.fetcher`, and by the simulator, which runs the same. The decisions are
`replication.follower`'s (PURE); here they get the log, and change it.
"""

from __future__ import annotations

from floodmark.records.batch import HEADER_BYTES, Buffer, read_header
from floodmark.replication import follower
from floodmark.replication.follower import (
    Append,
    BackOff,
    FollowerAnswer,
    FollowerFetch,
    Step,
)
from floodmark.replication.replica import Replica
from floodmark.wire.errors import NO_ERROR


def next_fetch(replica: Replica) -> FollowerFetch | None:
    """What to ask the leader for; None while there is none, while the log is being truncated, or
    while a flush has to come first: to fetch at an offset is to say that all before it is as safe
    as it has to be."""
    if replica.flush_due_offset is not None or replica.log.is_truncating:
        return None
    return follower.next_fetch(replica.core, replica.log.leader_epochs.latest)


def decide(replica: Replica, fetch: FollowerFetch, answer: FollowerAnswer) -> Step:
    """What to do with the answer to a fetch. While a thread truncates the log, the epochs in it
    and the end that `core` knows do not belong together: the answer is out of date."""
    if replica.flush_due_offset is not None or replica.log.is_truncating:
        return BackOff(NO_ERROR)
    log = replica.log
    return follower.decide(
        replica.core, log.leader_epochs.latest, fetch, answer, log.end_offset_for_epoch
    )


def decide_after_out_of_range(
    replica: Replica, fetch: FollowerFetch, leader_log_start_offset: int, leader_log_end_offset: int
) -> Step:
    """What to do when `decide` said FindOffsets and the leader has answered."""
    if fetch != next_fetch(replica):
        return BackOff(NO_ERROR)
    return follower.after_out_of_range(replica.core, leader_log_start_offset, leader_log_end_offset)


def starts_inside_a_batch(replica: Replica, records: Buffer) -> int | None:
    """Where this log has to start for these records, when it is empty and starts inside the
    first of their batches, as the leader's does after DeleteRecords; else None."""
    log = replica.log
    if log.log_start_offset != log.log_end_offset or len(records) < HEADER_BYTES:
        return None
    first = read_header(records)
    inside = first.base_offset < log.log_end_offset <= first.last_offset
    return first.base_offset if inside else None


def append_as_follower(replica: Replica, records: Buffer, step: Append, now_ms: int) -> None:
    """Appends what the leader sent and takes over its high watermark and log start."""
    replica.log.append_as_follower(records, now_ms)
    replica.copied(step.leader_high_watermark)
    # Not beyond our own high watermark: the leader's log start never is beyond its own.
    replica.log.advance_log_start(
        min(step.leader_log_start_offset, max(replica.core.high_watermark, 0))
    )
