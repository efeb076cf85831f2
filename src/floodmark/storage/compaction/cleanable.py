"""Decides which logs to compact, and how far. Called by cleaner.py on the loop.

The clean part of a log ends at its entry in `cleaner-offset-checkpoint`; the rest is dirty. The
active segment, records an open transaction may still change, and records younger than
`min.compaction.lag.ms` are not compacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from floodmark.storage.compaction.compaction import CompactionJob, LastRecord, SourceSegment
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.segment import Segment

# Time index entries are larger than offset index entries, and there are as many.
_INDEX_ENTRY_BYTES: Final = 12


@dataclass(slots=True, frozen=True)
class Cleanable:
    """A log as the cleaner sees it. Only whole segments are compacted: those in `segments`."""

    log: PartitionLog
    segments: list[Segment]
    first_dirty_offset: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = sum(segment.size_bytes for segment in self.segments)
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.is_overdue and self.dirty_bytes > 0:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio

    def job(self, now_ms: int, dedupe_buffer_bytes: int) -> CompactionJob:
        """Raises OSError if the disk is full."""
        log = self.log
        # The cleaner's process reads from the files what was aborted. The disk may have been full
        # when the last marker was appended.
        log.active.transaction_index.flush()
        config = log.config
        bases = [segment.base_offset for segment in log.segments]
        ends = dict(zip(bases, [*bases[1:], log.log_end_offset], strict=True))
        return CompactionJob(
            directory=str(log.directory),
            segments=[
                SourceSegment(
                    segment.base_offset,
                    ends[segment.base_offset],
                    segment.size_bytes,
                    segment.size_bytes // config.index_interval_bytes * _INDEX_ENTRY_BYTES,
                )
                for segment in self.segments
            ],
            first_dirty_offset=self.first_dirty_offset,
            now_ms=now_ms,
            dedupe_buffer_bytes=dedupe_buffer_bytes,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=config.delete_retention_ms,
            index_base_offsets=bases,
            active_producers={
                producer_id: LastRecord(entry.producer_epoch, entry.last_offset)
                for producer_id, entry in log.producers.entries.items()
            },
        )


def examine(
    log: PartitionLog, high_watermark: int, clean_offset: int | None, now_ms: int
) -> Cleanable:
    first_dirty_offset = _first_dirty_offset(log, clean_offset)
    count = _cleanable_count(log, high_watermark, first_dirty_offset, now_ms)
    segments = log.segments[:count]
    ends = [segment.base_offset for segment in log.segments[1:]]
    dirty = [s for s, end in zip(segments, ends, strict=False) if end > first_dirty_offset]
    return Cleanable(
        log,
        segments,
        first_dirty_offset,
        sum(segment.size_bytes for segment in dirty),
        _is_overdue(log, dirty, now_ms),
    )


def _first_dirty_offset(log: PartitionLog, clean_offset: int | None) -> int:
    """A checkpoint outside the log belongs to an earlier log of that name."""
    start = log.log_start_offset
    if clean_offset is None or not start <= clean_offset <= log.log_end_offset:
        return start
    return clean_offset


def _cleanable_count(
    log: PartitionLog, high_watermark: int, first_dirty_offset: int, now_ms: int
) -> int:
    """How many leading segments lie entirely in the part that may be compacted."""
    limit = min(log.last_stable_offset(high_watermark), log.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    count = 0
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > limit:
            break
        is_dirty = following.base_offset > first_dirty_offset
        if lag_ms > 0 and is_dirty and segment.retention_timestamp() > now_ms - lag_ms:
            break
        count += 1
    return count


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    """Whether a dirty record has waited longer than `max.compaction.lag.ms`."""
    oldest_allowed_ms = now_ms - log.config.max_compaction_lag_ms
    return any(0 < segment.first_timestamp < oldest_allowed_ms for segment in dirty)
