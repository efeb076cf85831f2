"""Retention as the broker does it, without its threads and delays."""

from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.retired_segments import RetiredSegments
from floodmark.storage.retention import segments_due


def apply_retention(log: PartitionLog, now_ms: int, high_watermark: int) -> RetiredSegments | None:
    """What is due leaves the log, with its files renamed; None when nothing is."""
    count = segments_due(log, now_ms, high_watermark)
    return log.retire(log.detach_oldest(count, now_ms)) if count else None
