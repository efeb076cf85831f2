"""Checks that a segment's index files cover its batches.

Empty, zeroed or truncated files, left by a power loss or an operator, look like those of a segment
that needs no more entries. Called by segment.py when it loads them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from floodmark.records.errors import CorruptRecord
from floodmark.storage.indexes.index_file import CorruptIndex
from floodmark.storage.log.verification import APPENDED_BYTES

if TYPE_CHECKING:
    from floodmark.storage.log.segment import Segment


def check_coverage(segment: Segment, interval_bytes: int) -> None:
    """Raises CorruptIndex if batches after the last entry should have had one.

    There are few of them: only Kafka's followers append many at once with one entry.
    """
    start = segment.offset_index.last_position()
    allowed_bytes = interval_bytes
    if len(segment.offset_index):
        allowed_bytes = max(interval_bytes, APPENDED_BYTES)
    largest_timestamp, _ = segment.time_index.last_entry()
    with suppress(CorruptRecord):
        for position, header in segment.unchecked_headers(start, segment.size_bytes):
            if header.max_timestamp > largest_timestamp:
                raise CorruptIndex(f"{segment.path.name}: the time index ends too early")
            if position - start > allowed_bytes:
                raise CorruptIndex(f"{segment.path.name}: the offset index ends too early")
