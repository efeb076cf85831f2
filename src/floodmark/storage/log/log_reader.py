"""Locates the data of a read: which range of which file.

Called by partition_log.py, which has checked the range. Reads only headers, unless the data is from
an earlier run: then it is verified once (verification.py). The slice itself is read when it goes to
the socket.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from floodmark.storage.files import FileSlice
from floodmark.storage.log.log_segments import LogSegments
from floodmark.storage.log.segment import Segment
from floodmark.storage.log.verification import DamagedBatch

# Consumers and followers at the end of a log: remember the offsets they wait at.
_TAIL_POSITIONS_KEPT: Final = 32
# Small batches take longest: a thousand of them some milliseconds.
_CHECKED_AT_ONCE_BYTES: Final = 4 << 20
# Shared, because an empty set takes more memory than most parts of an empty log.
_NO_DAMAGE: Final[frozenset[tuple[int, int]]] = frozenset()


class LogReader:
    """Finds positions with the sparse index and a short walk, or at the tail from memory."""

    __slots__ = ("_segments", "_tail_positions", "damaged")

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        # Of the active segment.
        self._tail_positions: dict[int, int] = {}
        # The segment's base offset and the position of each damaged batch found.
        self.damaged = _NO_DAMAGE

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        log_end_offset: int,
        min_one_batch: bool,
    ) -> FileSlice | None:
        """Implements PartitionLog.read for an offset within the log."""
        segments = self._segments
        last = segments.active
        if offset == last.tail_offset and last.tail and end_offset == log_end_offset:
            # A reader that waited at the end of the log gets what was just appended.
            size_bytes = len(last.tail)
            if size_bytes <= max_bytes or min_one_batch:
                self.remember_tail(end_offset, last.size_bytes)
                return FileSlice(last.file, last.size_bytes - size_bytes, size_bytes, last.tail)
        # Not `holding`: this is the hot path, and a call would show.
        slot = bisect_right(segments.base_offsets, offset) - 1
        for segment in segments.all[max(slot, 0) :]:
            if segment.base_offset >= end_offset:
                return None
            start = self._checked_position_of(segment, offset)
            if start >= segment.size_bytes:
                # Compaction may leave nothing at the end of a segment: try the next one.
                continue
            available = self._end_position(segment, end_offset, log_end_offset) - start
            if available <= 0:
                return None
            size_bytes = min(available, max_bytes)
            if size_bytes <= 0 and not min_one_batch:
                return None
            if size_bytes < available:
                first_batch_bytes = min(available, segment.batch_size_at(start))
                if size_bytes < first_batch_bytes:
                    if not min_one_batch:
                        # Java's consumer fails on a partial batch alone.
                        return None
                    size_bytes = first_batch_bytes
            elif segment is segments.active:
                self.remember_tail(end_offset, start + size_bytes)
            if start < segment.verified.trusted_from:
                size_bytes = self._checked_end(segment, start, start + size_bytes) - start
            return FileSlice(segment.file, start, size_bytes)
        return None

    def _checked_position_of(self, segment: Segment, offset: int) -> int:
        try:
            return self._position_of(segment, offset)
        except DamagedBatch as damage:
            self._note_damage(segment, damage)
            raise

    def _note_damage(self, segment: Segment, damage: DamagedBatch) -> None:
        self.damaged |= {(segment.base_offset, damage.position)}

    def _checked_end(self, segment: Segment, start: int, end: int) -> int:
        """Where a slice must end.

        At the first damaged batch, which is the next read's turn, and after as much as may be
        verified on the loop without a pause.
        """
        if segment.verified.covers(start, end):
            return end
        try:
            for position, header in segment.headers(start, segment.size_bytes):
                next_position = position + header.size_bytes
                if next_position >= end:
                    break
                if next_position - start >= _CHECKED_AT_ONCE_BYTES:
                    return next_position
        except DamagedBatch as damage:
            self._note_damage(segment, damage)
            if damage.position <= start:
                raise
            return min(damage.position, end)
        return end

    def end_of_slice(self, first_offset: int, records: FileSlice, log_end_offset: int) -> int:
        """An offset at or after the end of what `read` returned for this offset.

        Uses the index, not the batches: the next entry, or the start of the next segment.
        """
        for segment in self._segments.holding(first_offset):
            if segment.is_of(records):
                after = segment.offset_index.first_offset_at(records.position + records.size_bytes)
                if after is not None:
                    return after
                return self._segments.end_of(segment, log_end_offset)
        return log_end_offset

    def _position_of(self, segment: Segment, offset: int) -> int:
        if segment is self._segments.active:
            position = self._tail_positions.get(offset)
            if position is not None:
                return position
        return segment.position_of(offset)

    def _end_position(self, segment: Segment, end_offset: int, log_end_offset: int) -> int:
        """The position of end_offset in this segment: reads stop before it."""
        segments = self._segments
        segment_end = (
            log_end_offset
            if segment is segments.active
            else segments.end_of(segment, log_end_offset)
        )
        if end_offset >= segment_end:
            return segment.size_bytes
        try:
            return self._position_of(segment, end_offset)
        except DamagedBatch as damage:
            return damage.position

    def remember_tail(self, offset: int, position: int) -> None:
        """Readers at the end will come back for the next records. This saves them the search."""
        self._segments.active.is_read_to_its_end = True
        tail = self._tail_positions
        if offset not in tail and len(tail) >= _TAIL_POSITIONS_KEPT:
            del tail[next(iter(tail))]
        tail[offset] = position

    def forget_tail(self) -> None:
        """Positions have changed, or belong to another segment."""
        self._tail_positions.clear()
