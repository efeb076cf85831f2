"""A segment written by compaction: a log file and its indexes, all named `*.cleaned`.

Used by compaction.py. Everything is on disk when `finish` returns, so that the following swap only
renames files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from floodmark.records.batch import (
    CONTROL_BIT,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    compute_crc,
)
from floodmark.storage.files import Files
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import LogConfig
from floodmark.storage.recovery.segment_files import CLEANED_SUFFIX
from floodmark.vocabulary import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

_WRITE_BYTES: Final = 1 << 19


class CleanedSegment:
    def __init__(self, files: Files, directory: Path, base_offset: int, config: LogConfig) -> None:
        # Overwrites leftovers of an interrupted compaction.
        Segment(files, directory, base_offset, config, CLEANED_SUFFIX).remove_files()
        self._segment = Segment.create(files, directory, base_offset, config, 0, CLEANED_SUFFIX)
        self._parts: list[Buffer] = []
        self._parts_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._segment.size_bytes

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        size_bytes = len(batch)
        self._segment.note(last_offset, max_timestamp, size_bytes)
        self._parts.append(batch)
        self._parts_bytes += size_bytes
        if self._parts_bytes >= _WRITE_BYTES:
            self._write()

    def note_aborted(self, entry: AbortedTransaction) -> None:
        self._segment.transaction_index.append(entry)

    def finish(self) -> None:
        self._write()
        self._segment.finish_indexes()
        self._segment.fsync()
        self._segment.fsync_indexes()
        self._segment.close_file()

    def discard(self) -> None:
        self._segment.close_file()
        self._segment.remove_files()

    def _write(self) -> None:
        if self._parts:
            self._segment.file.append(b"".join(self._parts))
            self._parts, self._parts_bytes = [], 0


def emptied(header: BatchHeader) -> bytearray:
    """The batch without its records. It still carries a producer's last sequence and epoch."""
    kept_bits = header.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    return _pack(
        header._replace(attributes=kept_bits, base_timestamp=NO_TIMESTAMP, records_count=0)
    )


def placeholder(header: BatchHeader) -> bytearray:
    """A batch that only covers offsets whose records are gone."""
    return _pack(
        header._replace(
            attributes=0,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            records_count=0,
        )
    )


def _pack(header: BatchHeader) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    whole = header._replace(batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES, magic=MAGIC, crc=0)
    HEADER.pack_into(batch, 0, *whole)
    batch[CRC_POSITION : CRC_POSITION + 4] = compute_crc(batch, 0, HEADER_BYTES).to_bytes(4, "big")
    return batch
