"""Renames a compacted segment to the files it was made from.

Called by PartitionLog.finish_swap, in a thread, under the lock that excludes fsync.
"""

from __future__ import annotations

from pathlib import Path

from floodmark.storage.files import Files
from floodmark.storage.log.log_segments import LogSegments
from floodmark.storage.log.retired_segments import RetiredSegments
from floodmark.storage.log.segment import Segment
from floodmark.storage.recovery.segment_files import SWAP_SUFFIX


def rename_swapped(
    files: Files,
    directory: Path,
    segments: LogSegments,
    cleaned: Segment,
    replaced: list[Segment],
) -> RetiredSegments:
    """Each step is durable before the next. A crash leaves the old segments, or new ones marked as
    swaps, which the next start completes."""
    is_current = any(segment is cleaned for segment in segments.all)
    if is_current:
        cleaned.rename(SWAP_SUFFIX)
        files.fsync_dir(directory)
    # Meanwhile a truncation may have started a segment in place of an old one.
    others = {segment.base_offset for segment in segments.all if segment is not cleaned}
    retired = RetiredSegments(files, [old for old in replaced if old.base_offset not in others])
    files.fsync_dir(directory)
    if is_current:
        cleaned.rename("")
        files.fsync_dir(directory)
    return retired
