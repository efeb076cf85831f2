"""Verifies batches from an earlier run before anyone relies on them.

Called by Segment.headers for what verified_range.py does not cover. So it protects fetches, loading
coordinators, searches by time and the rebuilding of producer state. segment_recovery.py uses it
too. Compaction checks only the checksum of what it copies. The first timestamp of a segment, which
only decides when it is rolled and compacted, is not verified.

The checksum covers a batch from its attributes on. Before it are the length, which the checksum
reveals, and two numbers that are compared with others: the base offset with the adjacent batches
and the index, the leader epoch with the log's epochs and the adjacent batches. These two can change
unnoticed where nothing contradicts them: an offset that moves within a gap left by compaction, an
epoch in a log whose list of epochs is lost, or one that turns into that of the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastcrc import crc32

from floodmark.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_ok,
    header_of,
)
from floodmark.records.errors import CorruptRecord
from floodmark.storage.indexes.offset_index import MAX_RELATIVE_OFFSET
from floodmark.vocabulary import NO_LEADER_EPOCH

if TYPE_CHECKING:
    from floodmark.storage.log.segment import Segment

_CHUNK_BYTES: Final = 1 << 18
# Hardly any batch is larger, so those that claim to be are read piece by piece.
_LARGE_BYTES: Final = 1 << 24
# How many index entries may fail to confirm a position before another way is tried, and how far
# batches appended together may reach: Kafka's followers fetch a mebibyte by default.
_ENTRIES_TRIED: Final = 4
APPENDED_BYTES: Final = 1 << 20


class DamagedBatch(CorruptRecord):
    """The disk has changed a batch: the only one at its position, or the first of several."""

    def __init__(
        self, path: Path, position: int, offset: int, reason: str, after: tuple[int, int] | None
    ) -> None:
        """`after` is the position and offset of the next intact batch, if one can be found."""
        advice = (
            "the next intact batch cannot be found"
            if after is None
            else f"consumers can continue at offset {after[1]}"
        )
        super().__init__(
            f"{path}, position {position}, offset {offset}: {reason}. It is not served; "
            f"{advice}, or replace the file by a good copy while the broker is stopped"
        )
        self.position = position
        self.offset = offset
        self.after = after


def checked_headers(
    segment: Segment, position: int, end_position: int, base_offset: int | None
) -> Iterator[tuple[int, BatchHeader]]:
    """Like Segment.headers, from this position or a batch before it.

    Raises DamagedBatch at the first damaged one. `base_offset` is the first batch's base offset, if
    the caller knows it.
    """
    segment.load_indexes()
    verified = segment.verified
    walk = BatchWalk(segment, end_position)
    if base_offset is None:
        position, base_offset = walk.anchor(position)
    while position < end_position:
        if position >= verified.trusted_from:
            yield from segment.unchecked_headers(position, end_position)
            return
        if verified.start <= position < verified.end:
            end = min(verified.end, end_position)
            yield from segment.unchecked_headers(position, end)
            if end == end_position:
                return
            position, base_offset = verified.end, verified.end_offset
            continue
        header = walk.check(position, base_offset)
        next_position, base_offset = position + header.size_bytes, header.next_offset
        verified.note(position, next_position, base_offset)
        if not segment.offset_index.fits(position, next_position, header.last_offset):
            # It would mislead reads.
            segment.rebuild_indexes()
        yield position, header
        position = next_position


def next_whole_batch(
    segment: Segment,
    position: int,
    end_position: int,
    offset: int,
    indexed: Iterable[tuple[int, int]],
) -> tuple[int, int] | None:
    """Position and offset of the first intact batch after a damaged one.

    Looks only where a batch is known to start, because record data may look like batches.

    That is where the damaged one's length leads, and where the index points: `indexed` has
    positions with the last offsets of their batches. Its offset also needs confirmation, because no
    checksum covers it and the damage may reach it.
    """
    walk = BatchWalk(segment, end_position)
    front = walk.header_at(position)
    if front is not None and front.batch_length >= MIN_BATCH_LENGTH:
        follower = position + front.size_bytes
        if follower == end_position and segment.offset_limit is not None:
            return follower, segment.offset_limit
        header = walk.whole_at(follower)
        expected_offset = offset + front.last_offset_delta + 1
        if header is not None and walk.is_believable(follower, header, offset, expected_offset):
            return follower, header.base_offset
    for entry_position, last_offset in indexed:
        if entry_position <= position or last_offset <= offset:
            continue
        base_offset = walk.vouched_base(entry_position, last_offset)
        if base_offset is not None and base_offset > offset:
            return entry_position, base_offset
    return None


class BatchWalk:
    """One pass over a range of a segment's file, read in chunks."""

    __slots__ = ("_chunk", "_chunk_start", "_end", "_holes_at_end", "_segment", "_vouched_epoch")

    def __init__(self, segment: Segment, end_position: int, *, holes_at_end: bool = True) -> None:
        """Compaction may leave a gap before the last batch.

        `holes_at_end` says whether to accept one that nothing after it confirms.
        """
        self._segment = segment
        self._holes_at_end = holes_at_end
        # Not the segment's size, which is unknown while its indexes are rebuilt.
        self._end = end_position
        # The previous batch's epoch, if the next one had to confirm it against the list of epochs.
        self._vouched_epoch: int | None = None
        self._chunk = b""
        self._chunk_start = 0

    def anchor(self, position: int) -> tuple[int, int]:
        """Where to start, and the base offset expected there.

        At the position itself if its batch is confirmed, otherwise before it.
        """
        segment = self._segment
        verified = segment.verified
        if position and verified.start <= position <= verified.end:
            return position, verified.end_offset
        entries = segment.offset_index.entries_back_from(position)
        for entry_position, last_offset in islice(entries, _ENTRIES_TRIED):
            base_offset = self.vouched_base(entry_position, last_offset)
            if base_offset is not None:
                return entry_position, base_offset
        if 0 < verified.end < position:
            return verified.end, verified.end_offset
        return 0, segment.base_offset

    def vouched_base(self, position: int, last_offset: int) -> int | None:
        """The base offset of the intact batch at this position, if its index entry confirms it.

        Kafka's entry has the last offset of all batches appended together, which then follow each
        other without a gap up to that offset.
        """
        first = header = self.whole_at(position)
        reach = position + APPENDED_BYTES
        while header is not None and header.last_offset < last_offset and position < reach:
            next_offset = header.next_offset
            position += header.size_bytes
            header = self.whole_at(position)
            if header is not None and header.base_offset != next_offset:
                return None
        if first is None or header is None or header.last_offset != last_offset:
            return None
        return first.base_offset

    def check(self, position: int, base_offset: int) -> BatchHeader:
        """The verified header of the batch at this position."""
        segment = self._segment
        known = segment.verified.damaged.get((position, base_offset))
        if known is not None:
            raise DamagedBatch(segment.path, position, base_offset, *known)
        found = self.examine(position, base_offset)
        if not isinstance(found, str):
            return found
        indexed = segment.offset_index.entries_after(position)
        after = next_whole_batch(segment, position, self._end, base_offset, indexed)
        if after is not None:
            segment.verified.note_damage(position, base_offset, found, after)
        raise DamagedBatch(segment.path, position, base_offset, found, after)

    def examine(self, position: int, base_offset: int) -> BatchHeader | str:
        """The header, or what is wrong with the batch."""
        header = self.header_at(position)
        if header is None:
            return "the file ends within the batch"
        if header.magic != MAGIC:
            return f"the batch has the unknown magic {header.magic}"
        if not self._is_whole(position, header):
            return "the batch does not match its checksum"
        if not self._offset_fits(position, header, base_offset):
            return f"the batch claims to begin at offset {header.base_offset}"
        if not self._epoch_fits(position, header):
            return f"the batch has the leader epoch {header.partition_leader_epoch}"
        return header

    def is_believable(
        self, position: int, header: BatchHeader, damaged_offset: int, expected_offset: int
    ) -> bool:
        """Whether the offset of the intact batch after a damaged one is plausible.

        As the damaged one implies, or between that one and the next.
        """
        if header.last_offset - self._segment.base_offset > MAX_RELATIVE_OFFSET:
            return False
        if header.base_offset == expected_offset > damaged_offset:
            return True
        limit = self._limit_behind(position, header)
        return (
            limit is not None and damaged_offset < header.base_offset < header.next_offset <= limit
        )

    def _limit_behind(self, position: int, header: BatchHeader) -> int | None:
        """The highest end offset a batch can have, if anything after it tells."""
        follower = self.header_at(position + header.size_bytes)
        if follower is not None and follower.magic == MAGIC:
            return follower.base_offset
        return self._segment.offset_limit

    def _offset_fits(self, position: int, header: BatchHeader, base_offset: int) -> bool:
        if header.base_offset == base_offset:
            return True
        if (
            header.base_offset < base_offset
            or header.last_offset - self._segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            return False
        # A gap before it: caused by compaction if it leaves room for what follows. An offset raised
        # by a flipped bit does not.
        limit = self._limit_behind(position, header)
        if limit is None:
            return self._holes_at_end
        if header.next_offset > limit:
            return False
        # Compaction was here, whatever the topic's policy is now.
        self._holes_at_end = True
        return True

    def _epoch_fits(self, position: int, header: BatchHeader) -> bool:
        """The list of epochs itself may be damaged: then the next batch settles it."""
        leader_epochs = self._segment.leader_epochs
        leader_epoch = header.partition_leader_epoch
        known = (
            NO_LEADER_EPOCH
            if leader_epochs is None
            else leader_epochs.epoch_for(header.base_offset)
        )
        if leader_epoch in (known, NO_LEADER_EPOCH) or known == NO_LEADER_EPOCH:
            self._vouched_epoch = None
            return True
        follower = self.header_at(position + header.size_bytes)
        if follower is not None and follower.partition_leader_epoch == leader_epoch:
            self._vouched_epoch = leader_epoch
        return leader_epoch == self._vouched_epoch

    # -- bytes

    def batch_at(self, position: int, header: BatchHeader) -> memoryview:
        inside = self._load(position, header.size_bytes)
        return memoryview(self._chunk)[inside : inside + header.size_bytes]

    def whole_at(self, position: int) -> BatchHeader | None:
        """The header of the batch at this position, if its checksum is right."""
        header = self.header_at(position)
        if header is None or header.magic != MAGIC or not self._is_whole(position, header):
            return None
        return header

    def _is_whole(self, position: int, header: BatchHeader) -> bool:
        if not MIN_BATCH_LENGTH <= header.batch_length <= self._end - position:
            return False
        if header.size_bytes > _LARGE_BYTES:
            return self._crc_in_pieces(position, header) == header.crc
        inside = self._load(position, header.size_bytes)
        return crc_ok(self._chunk, inside, header)

    def _crc_in_pieces(self, position: int, header: BatchHeader) -> int:
        """For a length that may be wrong, so that it does not need as much memory."""
        crc = 0
        at, end = position + CRC_START, position + header.size_bytes
        while at < end:
            piece = self._segment.file.pread(min(_CHUNK_BYTES, end - at), at)
            if not piece:
                break
            crc = crc32.iscsi(piece, crc)
            at += len(piece)
        return crc

    def header_at(self, position: int) -> BatchHeader | None:
        """What is where a header would be; None at the end of the segment."""
        if self._end - position < HEADER_BYTES:
            return None
        inside = self._load(position, HEADER_BYTES)
        if len(self._chunk) - inside < HEADER_BYTES:
            return None
        return header_of(HEADER.unpack_from(self._chunk, inside))

    def _load(self, position: int, size_bytes: int) -> int:
        """Loads these bytes into the chunk. Returns their position in it."""
        inside = position - self._chunk_start
        if inside < 0 or len(self._chunk) - inside < size_bytes:
            wanted_bytes = min(self._end - position, max(_CHUNK_BYTES, size_bytes))
            self._chunk = self._segment.file.pread(wanted_bytes, position)
            self._chunk_start, inside = position, 0
        return inside
