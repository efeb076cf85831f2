"""Checks one segment after an unclean shutdown: batch by batch, up to the first fault.

Called by recovery.py, which decides which segments to check and what happens to those after a
fault.
"""

from __future__ import annotations

import logging
import zlib
from typing import Final

from floodmark.storage.errors import UnsupportedLogFormat
from floodmark.storage.files import File
from floodmark.storage.indexes.index_file import CorruptIndex
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.segment import Segment
from floodmark.storage.log.verification import BatchWalk, next_whole_batch
from floodmark.storage.producers.producer_replay import replay_batch
from floodmark.storage.producers.producer_state import ProducerState

logger = logging.getLogger(__name__)
_CHUNK_BYTES: Final = 1 << 20
_OLD_MAGIC_POSITION: Final = 16
_OLD_MESSAGE_MIN_BYTES: Final = 14


def recover_segment(
    segment: Segment,
    producers: ProducerState,
    leader_epochs: LeaderEpochs,
    recovery_point: int,
    *,
    holes_at_end: bool,
) -> bool:
    """Checks all batches, rebuilds the indexes, and cuts a corrupt tail. True if there was none.

    Below the recovery point nothing can be torn, so a fault there was caused by the disk. It stays
    in place, for reads to find, and the walk continues after it.
    """
    size_bytes = segment.file.size()
    indexed = _index_entries(segment)
    segment.start_over()
    segment.transaction_index.reset()
    scan = _Scan(segment, producers, leader_epochs, size_bytes, holes_at_end=holes_at_end)
    trusted_from = 0
    while (fault := scan.run()) is not None:
        refuse_old_format(segment, segment.size_bytes)
        after = (
            next_whole_batch(segment, segment.size_bytes, size_bytes, scan.next_offset, indexed)
            if scan.next_offset < recovery_point
            else None
        )
        if after is None and scan.next_offset < recovery_point:
            logger.error("%s: %s; cannot find what follows", segment.path, fault)
            segment.size_bytes = trusted_from = size_bytes
            segment.offset_limit = segment.offset_limit or recovery_point
            # The rest is there, though unreadable: no gap before the next segment.
            producers.end_offset = segment.offset_limit
            break
        if after is None:
            logger.warning(
                "%s: cutting %d bytes at offset %d: %s",
                segment.path,
                size_bytes - segment.size_bytes,
                scan.next_offset,
                fault,
            )
            segment.file.truncate(segment.size_bytes)
            break
        logger.error(
            "%s: the disk has changed what lies between the offsets %d and %d: %s",
            segment.path,
            scan.next_offset,
            after[1],
            fault,
        )
        trusted_from, scan.next_offset = after
        segment.size_bytes = trusted_from
    segment.verified.trust_from(trusted_from)
    segment.finish_indexes()
    return segment.size_bytes == size_bytes


def _index_entries(segment: Segment) -> list[tuple[int, int]]:
    """Where batches start, if the index that recovery will replace is readable."""
    try:
        segment.offset_index.load(segment.size_bytes)
    except CorruptIndex:
        return []
    return list(segment.offset_index.entries_after(0))


class _Scan:
    """Recovery's walk over one segment. It can continue after a fault."""

    __slots__ = ("_leader_epochs", "_producers", "_segment", "_size_bytes", "_walk", "next_offset")

    def __init__(
        self,
        segment: Segment,
        producers: ProducerState,
        leader_epochs: LeaderEpochs,
        size_bytes: int,
        *,
        holes_at_end: bool,
    ) -> None:
        self._segment = segment
        self._producers = producers
        self._leader_epochs = leader_epochs
        self._size_bytes = size_bytes
        self._walk = BatchWalk(segment, size_bytes, holes_at_end=holes_at_end)
        self.next_offset = segment.base_offset

    def run(self) -> str | None:
        """Reads all batches from the segment's known end on.

        Returns what is wrong with the first damaged one, at that position.
        """
        segment, leader_epochs = self._segment, self._leader_epochs
        while (position := segment.size_bytes) < self._size_bytes:
            header = self._walk.examine(position, self.next_offset)
            if isinstance(header, str):
                return header
            segment.note(header.last_offset, header.max_timestamp, header.size_bytes)
            leader_epochs.begin(header.partition_leader_epoch, header.base_offset)
            replay_batch(self._producers, self._walk.batch_at(position, header), header, segment)
            self.next_offset = header.next_offset
        return None


def refuse_old_format(segment: Segment, position: int) -> None:
    """For an unreadable batch: an intact message of magic 0 or 1 is data, not a fault.

    Such a message has its length in the same place as a batch, followed by a CRC32 and the magic.
    """
    front = segment.file.pread(_OLD_MAGIC_POSITION + 1, position)
    if len(front) <= _OLD_MAGIC_POSITION or front[_OLD_MAGIC_POSITION] > 1:
        return
    length = int.from_bytes(front[8:12], "big", signed=True)
    crc = int.from_bytes(front[12:16], "big")
    if length < _OLD_MESSAGE_MIN_BYTES:
        return
    if _crc32(segment.file, position + 16, position + 12 + length) == crc:
        raise UnsupportedLogFormat(
            f"{segment.path} holds messages in the format of Kafka 0.10 or older; let Kafka 3.x "
            "rewrite the topic, or move the folder away"
        )


def _crc32(file: File, position: int, end_position: int) -> int:
    crc = 0
    while position < end_position:
        chunk = file.pread(min(end_position - position, _CHUNK_BYTES), position)
        if not chunk:
            break
        crc = zlib.crc32(chunk, crc)
        position += len(chunk)
    return crc
