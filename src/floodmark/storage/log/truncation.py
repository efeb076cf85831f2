"""The steps of a truncation on the files of a log.

Called by PartitionLog.truncate_to and truncate_fully_and_start_at, which hold the locks and own the
offsets. Blocks.
"""

from __future__ import annotations

from pathlib import Path

from floodmark.storage.files import Files
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.log_segments import LogSegments
from floodmark.storage.producers.producer_replay import rebuild_producers
from floodmark.storage.producers.producer_snapshot import ProducerSnapshots
from floodmark.storage.producers.producer_state import ProducerState


def cut_batches(segments: LogSegments, offset: int) -> int:
    """Drops the batch with this offset and all after it. Returns the new end of the log."""
    drop_segments(segments, segments.slot_of(offset) + 1)
    active = segments.active
    active.truncate_to(offset)
    return max(active.next_offset(), active.base_offset)


def drop_segments(segments: LogSegments, keep: int) -> None:
    """Removes all but the first `keep`, including their files."""
    for segment in segments.all[keep:]:
        segment.close_file()
        segment.remove_files()
    segments.forget_after(keep)


def cut_state(
    files: Files,
    directory: Path,
    segments: LogSegments,
    leader_epochs: LeaderEpochs,
    producers: ProducerState,
    snapshots: ProducerSnapshots,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
) -> None:
    """After cutting the batches: restores epochs, snapshots and producers as of the new end."""
    leader_epochs.truncate_from_end(log_end_offset)
    snapshots.keep_between(log_start_offset, log_end_offset)
    # A snapshot of the dropped part must not return after a power loss.
    files.fsync_dir(directory)
    rebuild_producers(
        files,
        directory,
        segments.all,
        producers,
        first_offset=log_start_offset,
        end_offset=log_end_offset,
        now_ms=now_ms,
    )
    snapshots.reload()
