"""Decides which segments retention removes: by start offset, by time, by size.

The broker calls it for each log every log.retention.check.interval.ms. Only whole segments below
the high watermark are removed.
"""

from __future__ import annotations

from floodmark.storage.log.partition_log import PartitionLog


def segments_due(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments are due, for the reason that reaches furthest."""
    deletable = _deletable(log, high_watermark)
    due = _before_start_offset(log, deletable)
    if log.config.is_deleted:
        due = max(due, _too_old(log, deletable, now_ms), _too_large(log, deletable))
    return due


def _deletable(log: PartitionLog, high_watermark: int) -> int:
    """Leading segments that end at or below the high watermark. An empty active one stays."""
    segments = log.segments
    for slot, segment in enumerate(segments):
        is_active = slot + 1 == len(segments)
        end_offset = log.log_end_offset if is_active else segments[slot + 1].base_offset
        if end_offset > high_watermark or (is_active and segment.size_bytes == 0):
            return slot
    return len(segments)


def _before_start_offset(log: PartitionLog, deletable: int) -> int:
    segments = log.segments
    count = 0
    while (
        count < min(deletable, len(segments) - 1)
        and segments[count + 1].base_offset <= log.log_start_offset
    ):
        count += 1
    return count


def _too_old(log: PartitionLog, deletable: int, now_ms: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    count = 0
    while count < deletable and now_ms - log.segments[count].retention_timestamp() > retention_ms:
        count += 1
    return count


def _too_large(log: PartitionLog, deletable: int) -> int:
    if log.config.retention_bytes < 0:
        return 0
    surplus_bytes = log.size_bytes - log.config.retention_bytes
    count = 0
    while count < deletable and 0 < surplus_bytes >= log.segments[count].size_bytes:
        surplus_bytes -= log.segments[count].size_bytes
        count += 1
    return count
