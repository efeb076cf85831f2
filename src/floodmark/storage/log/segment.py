"""One segment of a log: the file of batches and its three indexes.

Called by partition_log.py and recovery.py. Appends already know their header and do nothing per
record. Reads find a position with the sparse index and a short walk over headers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from floodmark.records.batch import HEADER, HEADER_BYTES, BatchHeader, check_shape, header_of
from floodmark.storage.files import Buffer, File, Files, FileSlice
from floodmark.storage.indexes.index_coverage import check_coverage
from floodmark.storage.indexes.index_file import CorruptIndex, IndexFile
from floodmark.storage.indexes.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from floodmark.storage.indexes.segment_indexes import (
    OFFSET_SUFFIX,
    TIME_SUFFIX,
    TRANSACTION_SUFFIX,
    SegmentIndexes,
)
from floodmark.storage.indexes.time_index import TimeIndex
from floodmark.storage.indexes.transaction_index import TransactionIndex
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.verification import DamagedBatch, checked_headers
from floodmark.storage.log.verified_range import VerifiedRange
from floodmark.storage.log_config import LogConfig
from floodmark.vocabulary import NO_TIMESTAMP

logger = logging.getLogger(__name__)
# Enough for the usual distance between two index entries and the batch across it.
_WALK_BYTES: Final = 8192
# Larger batches are worth a separate read.
TAIL_BYTES: Final = 4096
_UNKNOWN: Final = -2
_LOG_SUFFIX: Final = ".log"
SUFFIXES: Final = (_LOG_SUFFIX, OFFSET_SUFFIX, TIME_SUFFIX, TRANSACTION_SUFFIX)


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """`suffix` is one of SUFFIXES, followed by compaction's mark while it works on the file."""
    return directory / f"{base_offset:020d}{suffix}"


class Segment:
    """The batches from base_offset up to the next segment's base offset."""

    __slots__ = (
        "_bytes_since_entry",
        "_file",
        "_files",
        "_first_timestamp",
        "_index_interval_bytes",
        "_indexes",
        "_indexes_loaded",
        "_mark",
        "_max_index_bytes",
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "created_ms",
        "directory",
        "is_full",
        "is_read_to_its_end",
        "leader_epochs",
        "offset_limit",
        "size_bytes",
        "tail",
        "tail_offset",
        "verified",
    )

    def __init__(
        self, files: Files, directory: Path, base_offset: int, config: LogConfig, mark: str = ""
    ) -> None:
        """`mark` follows all file names while compaction creates or swaps the segment."""
        self._files = files
        self._mark = mark
        self.directory = directory
        self.base_offset = base_offset
        self._file: File | None = None
        self.size_bytes = 0
        # The last batch, if it is small, was just appended, and someone has read to the end of the
        # log before. Many may wait for it there, and a read takes as long as the rest of the
        # search.
        self.tail = b""
        self.tail_offset = 0
        self.is_read_to_its_end = False
        self.created_ms = 0
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0
        # Whether an index has no room for another entry; cached, because every append asks.
        self.is_full = False
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = _UNKNOWN
        self._max_timestamp_offset = base_offset
        # None until one is needed: a broker may have many thousands of empty segments.
        self._indexes: SegmentIndexes | None = None
        self._indexes_loaded = False
        self._max_index_bytes = config.segment_index_bytes
        self.verified = VerifiedRange(0)
        # What the log knows, to check loaded batches against: an offset that none of them reaches,
        # and the existing epochs.
        self.offset_limit: int | None = None
        self.leader_epochs: LeaderEpochs | None = None

    @classmethod
    def create(
        cls,
        files: Files,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        mark: str = "",
    ) -> Segment:
        """A new empty segment. If the disk refuses, leaves nothing behind."""
        segment = cls(files, directory, base_offset, config, mark)
        segment.created_ms = now_ms
        segment._indexes_loaded = True
        segment._max_timestamp = NO_TIMESTAMP
        try:
            segment._file = files.open(segment.path)
            segment._file.truncate(0)
            # Kafka rebuilds a segment without them.
            for suffix in (OFFSET_SUFFIX, TIME_SUFFIX):
                IndexFile(files, segment.path_of(suffix)).truncate(0)
            # A leftover of a crash would list aborts that are not in this segment.
            files.remove(segment.path_of(TRANSACTION_SUFFIX))
        except OSError:
            segment.close_file()
            segment.remove_files()
            raise
        return segment

    @classmethod
    def load(
        cls, files: Files, directory: Path, base_offset: int, config: LogConfig, mark: str = ""
    ) -> Segment:
        """An existing segment. Its sparse indexes are read on first use.

        Raises CorruptIndex if its transaction index is corrupt.
        """
        segment = cls(files, directory, base_offset, config, mark)
        segment.size_bytes = files.size(segment.path)
        segment.created_ms = files.modified_ms(segment.path)
        segment.verified = VerifiedRange(segment.size_bytes)
        # Few segments have one, and it cannot be rebuilt later without the producers' state.
        if files.exists(segment.path_of(TRANSACTION_SUFFIX)):
            segment.transaction_index.load()
        return segment

    def path_of(self, suffix: str) -> Path:
        return segment_path(self.directory, self.base_offset, suffix + self._mark)

    @property
    def path(self) -> Path:
        return self.path_of(_LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The log file, opened on first use: old segments hold no descriptor until they are read.

        Never created: a removed file is lost, not empty.
        """
        if self._file is None:
            self._file = self._files.open(self.path, create=False)
        return self._file

    def is_of(self, records: FileSlice) -> bool:
        """Whether a slice belongs to this segment."""
        return records.file is self._file

    # -- appending

    def append(
        self,
        buffer: Buffer,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        size_bytes: int,
    ) -> None:
        """Writes one batch that already has its offset.

        On OSError the segment is unchanged in memory.
        """
        (self._file or self.file).append(buffer)
        self.note(last_offset, max_timestamp, size_bytes)
        if self.is_read_to_its_end:
            self.is_read_to_its_end = False
            if size_bytes <= TAIL_BYTES:
                self.tail, self.tail_offset = bytes(buffer), base_offset

    def note(self, last_offset: int, max_timestamp: int, size_bytes: int) -> None:
        """Accounts for a batch just written.

        Size, largest timestamp and, now and then, an index entry.
        """
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        since_entry = self._bytes_since_entry
        if since_entry > self._index_interval_bytes:
            self._add_index_entry(last_offset)
            since_entry = 0
        self._bytes_since_entry = since_entry + size_bytes
        position = self.size_bytes
        if not position:
            self._first_timestamp = max_timestamp
        self.size_bytes = position + size_bytes
        self.tail = b""

    def _add_index_entry(self, last_offset: int) -> None:
        indexes = self._indexes or self.indexes
        indexes.offset.append(last_offset, self.size_bytes)
        indexes.time.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.is_full = indexes.offset.is_full or indexes.time.is_full

    def cut_back(self) -> None:
        """Removes what a failed write left after the known end. A file that could not be opened got
        nothing."""
        if self._file is not None:
            self._file.truncate(self.size_bytes)

    def has_room(
        self,
        size_bytes: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        config: LogConfig,
    ) -> bool:
        """Whether a batch still fits here, by size, time and index space.

        Uses the records' time if the first batch has one.
        """
        first_timestamp = self._first_timestamp
        if first_timestamp < 0:
            first_timestamp, max_timestamp = self._begin_and_end(max_timestamp, now_ms)
        segment_ms = config.segment_ms
        if config.segment_jitter_ms:
            segment_ms -= self._jitter_ms(min(config.segment_jitter_ms, segment_ms))
        return (
            max_timestamp - first_timestamp <= segment_ms
            and self.size_bytes + size_bytes <= config.segment_bytes
            and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
            and not self.is_full
        )

    def _begin_and_end(self, max_timestamp: int, now_ms: int) -> tuple[int, int]:
        """The time range of the segment with a batch of this timestamp."""
        first_timestamp = self.first_timestamp
        if first_timestamp < 0:
            return self.created_ms, now_ms
        return first_timestamp, max_timestamp

    def _jitter_ms(self, limit_ms: int) -> int:
        """This segment's share of segment.jitter.ms.

        Segments that started together do not roll together.
        """
        return crc32(f"{self.directory.name} {self.base_offset}".encode()) % limit_ms

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch; -1 if it has none or there is no batch."""
        if self._first_timestamp == _UNKNOWN:
            self._load_first_timestamp()
        return max(self._first_timestamp, NO_TIMESTAMP)

    def _load_first_timestamp(self) -> None:
        if self.size_bytes == 0:
            return
        front = self.file.pread(HEADER_BYTES, 0)
        if len(front) == HEADER_BYTES:
            self._first_timestamp = header_of(HEADER.unpack(front)).max_timestamp

    # -- indexes

    @property
    def indexes(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = SegmentIndexes(
                self._files, self.path_of, self.base_offset, self._max_index_bytes
            )
        return self._indexes

    @property
    def offset_index(self) -> OffsetIndex:
        return self.indexes.offset

    @property
    def time_index(self) -> TimeIndex:
        return self.indexes.time

    @property
    def transaction_index(self) -> TransactionIndex:
        return self.indexes.transaction

    def load_indexes(self) -> None:
        """Reads the index files. Rebuilds those that do not match the log."""
        if self._indexes_loaded:
            return
        try:
            self.offset_index.load(self.size_bytes)
            self.time_index.load()
            check_coverage(self, self._index_interval_bytes)
        except CorruptIndex as problem:
            logger.warning("%s: rebuilding indexes: %s", self.directory.name, problem)
            self.rebuild_indexes()
            return
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry()
        self.is_full = self.indexes.is_full
        self._indexes_loaded = True

    def settle_indexes(self) -> None:
        """Loads index files that look lost, to rebuild them where nobody waits.

        Recovery calls this in its threads. A rebuild takes seconds per gigabyte of small batches.
        """
        if self.size_bytes > self._index_interval_bytes and (
            self.offset_index.is_doubtful() or self.time_index.is_doubtful()
        ):
            self.load_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuilds offset and time index from the batches, skipping damaged ones."""
        size_bytes = self.size_bytes
        try:
            self.start_over()
            place: tuple[int, int] | None = (0, self.base_offset)
            while place is not None:
                place = self._note_from(*place, size_bytes)
        except OSError:
            # Perhaps no file could be opened: the next caller retries.
            self._indexes_loaded = False
            self._max_timestamp = _UNKNOWN
            raise
        finally:
            self.size_bytes = size_bytes
        self.finish_indexes()

    def _note_from(
        self, position: int, base_offset: int, size_bytes: int
    ) -> tuple[int, int] | None:
        """Accounts for all batches from here on. Returns where to continue after a damaged one."""
        self.size_bytes = position
        try:
            for _, header in self.headers(position, size_bytes, base_offset):
                self.note(header.last_offset, header.max_timestamp, header.size_bytes)
        except DamagedBatch as damage:
            return damage.after
        return None

    def start_over(self) -> None:
        """Resets size and index entries, to account for every batch again."""
        self._indexes_loaded = True
        self.offset_index.reset()
        self.time_index.reset()
        self.is_full = False
        self.size_bytes = 0
        self._bytes_since_entry = 0
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset

    def finish_indexes(self) -> None:
        """Closes the time index with the largest timestamp and writes all indexes."""
        self.transaction_index.flush()
        if not self._indexes_loaded:
            return
        if self._max_timestamp > NO_TIMESTAMP:
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.offset_index.flush()
        self.time_index.flush()

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or -1 if no record has one."""
        if self._max_timestamp == _UNKNOWN:
            self.load_indexes()
        return self._max_timestamp

    def retention_timestamp(self) -> int:
        """The time used for retention: the newest record's, otherwise the file's."""
        try:
            newest = self.largest_timestamp
            return newest if newest >= 0 else self._files.modified_ms(self.path)
        except FileNotFoundError:
            if not self._files.is_dir(self.directory):
                # Moved away, perhaps temporarily: nothing is known about its contents.
                raise
            # Someone removed it: there is nothing left to keep.
            return 0

    # -- reading

    def headers(
        self, position: int, end_position: int, base_offset: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Headers of the whole batches in a range of the file.

        Verifies those from an earlier run once.

        Verification may start before the position if nothing there says what its offset must be,
        and the caller does not either. Raises DamagedBatch at the first damaged batch.
        """
        verified = self.verified
        if position >= verified.trusted_from or verified.covers(position, end_position):
            return self.unchecked_headers(position, end_position)
        return checked_headers(self, position, end_position, base_offset)

    def unchecked_headers(
        self, position: int, end_position: int
    ) -> Iterator[tuple[int, BatchHeader]]:
        """For verified data: read in small chunks, because only headers are needed."""
        chunk = b""
        chunk_start = position
        while end_position - position >= HEADER_BYTES:
            inside = position - chunk_start
            if len(chunk) - inside < HEADER_BYTES:
                chunk = self.file.pread(min(_WALK_BYTES, end_position - position), position)
                chunk_start, inside = position, 0
                if len(chunk) < HEADER_BYTES:
                    return
            header = header_of(HEADER.unpack_from(chunk, inside))
            check_shape(header)
            next_position = position + header.size_bytes
            if next_position > end_position:
                return
            yield position, header
            position = next_position

    def position_of(self, offset: int) -> int:
        """The position of the batch with this offset or the next one; the size if there is none."""
        self.load_indexes()
        indexes = self._indexes or self.indexes
        place: tuple[int, int | None] = (indexes.offset.lookup(offset), None)
        while True:
            try:
                for position, header in self.headers(place[0], self.size_bytes, place[1]):
                    if header.last_offset >= offset:
                        return position
            except DamagedBatch as damage:
                if damage.after is None or offset < damage.after[1]:
                    raise
                place = damage.after
            else:
                return self.size_bytes

    def batch_size_at(self, position: int) -> int:
        """The size of the batch at this position; 0 at the end."""
        front = self.file.pread(12, position)
        return 12 + int.from_bytes(front[8:12], "big") if len(front) == 12 else 0

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry."""
        self.load_indexes()
        next_offset = self.base_offset
        place: tuple[int, int | None] = (self.offset_index.last_position(), None)
        while True:
            try:
                for _, header in self.headers(place[0], self.size_bytes, place[1]):
                    next_offset = header.next_offset
            except DamagedBatch as damage:
                if damage.after is None:
                    raise
                place = damage.after
                next_offset = damage.after[1]
            else:
                return next_offset

    # -- cutting and ending

    def truncate_to(self, offset: int) -> None:
        """Drops the batch with this offset and all after it."""
        try:
            position = self.position_of(offset)
        except DamagedBatch as damage:
            position = damage.position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.is_full = self.indexes.is_full
        self.file.truncate(position)
        self.size_bytes = position
        self.tail = b""
        self.offset_limit = offset
        self.verified.cut(position)
        self._bytes_since_entry = 0
        if position == 0:
            self._first_timestamp = _UNKNOWN
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry()
        start = self.offset_index.lookup(self._max_timestamp_offset)
        with contextlib.suppress(DamagedBatch):
            for _, header in self.headers(start, position):
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp = header.max_timestamp
                    self._max_timestamp_offset = header.last_offset

    def fsync(self) -> None:
        """Syncs only the log file. Called in a thread, which may not set `_file`: the loop may be
        opening it for an append.

        The indexes of an unfinished segment are rebuilt after a crash.
        """
        opened = self._file
        if opened is not None:
            opened.fsync()
            return
        own = self._files.open(self.path, create=False)
        try:
            own.fsync()
        finally:
            own.close()

    def fsync_indexes(self) -> None:
        """For a finished segment, before the recovery point passes it.

        Recovery will not check it again.
        """
        if self._indexes_loaded:
            self.offset_index.fsync()
            self.time_index.fsync()
            self.transaction_index.fsync()

    def close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def paths(self) -> list[Path]:
        return [self.path_of(suffix) for suffix in SUFFIXES]

    def rename(self, mark: str) -> None:
        """Changes the files' mark, or removes it: then the segment belongs to the log.

        Blocks. Its file and indexes must be open and loaded, because paths are wrong while this
        runs.
        """
        for suffix, path in zip(SUFFIXES, self.paths(), strict=True):
            if self._files.exists(path):
                target = segment_path(self.directory, self.base_offset, suffix + mark)
                self._files.rename(path, target)
        self._mark = mark
        self._renamed()

    def moved(self, directory: Path) -> None:
        """The folder has been renamed. The file may be open or not."""
        self.directory = directory
        self._renamed()

    def _renamed(self) -> None:
        if self._indexes is not None:
            self._indexes.renamed(self.path_of)

    def remove_files(self) -> None:
        for path in self.paths():
            self._files.remove(path)
