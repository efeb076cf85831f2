"""The log of one partition: segments, producer state, leader epochs.

The only interface to a log for its callers. Separate files implement how segments are read, synced,
cut, swapped and retired. Called by replication on the loop, one call at a time. `fsync`,
`sync_names`, `retire` and the cleaner's `finish_swap` run in threads next to appends. `open` and
`delete` also run in threads, before the first and after the last append. Reads return slices of
files, never bytes. An append is one write and some integers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from floodmark.records.batch import (
    CONTROL_BIT,
    BatchHeader,
    Buffer,
    HeaderFields,
    WritableBuffer,
    crc_ok,
    header_of,
    iter_headers,
)
from floodmark.records.control import EndTransactionMarker, decode_marker
from floodmark.records.errors import CorruptRecord
from floodmark.steps import Steps
from floodmark.storage.compaction.compaction_swap import rename_swapped
from floodmark.storage.errors import (
    DiskFull,
    LogClosed,
    LogDirFailure,
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    StorageError,
    storage_failure,
)
from floodmark.storage.files import Files, FileSlice
from floodmark.storage.folder_names import (
    DELETE_SUFFIX,
    name_aside,
    parse_directory_name,
    partition_name,
)
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.leader_epochs import EpochEndOffset
from floodmark.storage.log.log_reader import LogReader
from floodmark.storage.log.log_segments import LogSegments
from floodmark.storage.log.log_sync import LogSync
from floodmark.storage.log.retired_segments import RetiredSegments
from floodmark.storage.log.segment import Segment
from floodmark.storage.log.time_search import (
    TimestampedOffset,
    find_largest_timestamp,
    find_timestamp,
)
from floodmark.storage.log.truncation import cut_batches, cut_state, drop_segments
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_replay import note_batch, replay_batch
from floodmark.storage.producers.producer_snapshot import ProducerSnapshots
from floodmark.storage.producers.producer_state import AppendOrigin, BatchMetadata
from floodmark.storage.producers.transaction_guards import AppendGuard, Unguarded
from floodmark.storage.recovery.recovery import LoadedLog, load_log
from floodmark.vocabulary import NO_PRODUCER_ID, NO_TIMESTAMP

# Base offset, length and leader epoch: set by the leader, before the checksum.
_FRONT: Final = Struct(">qii")


class PartitionLog:
    """One partition's log. Offsets are exclusive ends: log_end_offset is the next one to write."""

    __slots__ = (
        "_files",
        "_reader",
        "_segments",
        "_snapshots",
        "config",
        "directory",
        "is_truncating",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "sync",
        "topic",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        config: LogConfig,
        loaded: LoadedLog,
        now_ms: int,
    ) -> None:
        """Only for `open`, which has read the folder."""
        self._files = files
        self.directory = directory
        topic, self.partition = parse_directory_name(partition_name(directory.name))
        # One string for all partitions: a name may have 249 characters.
        self.topic = sys.intern(topic)
        self.config = config
        # While a thread truncates, nothing else may change the segments.
        self.is_truncating = False
        self._segments = LogSegments(loaded.segments, loaded.leader_epochs)
        self._reader = LogReader(self._segments)
        self.producers = loaded.producers
        self.leader_epochs = loaded.leader_epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        # Public for `recovery_point`, which every append reads.
        self.sync = LogSync(
            files,
            directory,
            self._segments,
            self.leader_epochs,
            loaded.recovery_point,
            now_ms,
        )
        self._snapshots = ProducerSnapshots(files, directory)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: Path,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        producer_expiration_ms: int = 86_400_000,
    ) -> PartitionLog:
        """The log in this folder.

        Created if it is new, recovered if the last shutdown was not clean.
        """
        parse_directory_name(partition_name(directory.name))
        try:
            files.mkdir(directory)
            loaded = load_log(
                files,
                directory,
                config,
                now_ms=now_ms,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                producer_expiration_ms=producer_expiration_ms,
            )
        except OSError as error:
            raise storage_failure(error, directory.parent, directory.name) from error
        except CorruptRecord as error:
            # Below the recovery point nothing is cut: everything after it is intact.
            raise StorageError(f"{directory} has changed on the disk: {error}") from error
        return cls(files, directory, config, loaded, now_ms)

    @property
    def segments(self) -> list[Segment]:
        return self._segments.all

    @property
    def active(self) -> Segment:
        """The segment being appended to."""
        return self._segments.active

    # -- appending

    def append(
        self,
        buffer: WritableBuffer,
        fields: HeaderFields,
        leader_epoch: int,
        now_ms: int,
        guard: AppendGuard = Unguarded.NOT_CHECKED,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Appends one validated batch as the leader.

        Writes the log end offset and this leader epoch into it. A duplicate is not appended;
        returns the original instead.

        Raises AppendRefused if the producer's state forbids it, and StorageError if the disk fails.
        The log is then unchanged.
        """
        _, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, _, _, _ = fields
        marker: EndTransactionMarker | None = None
        if producer_id != NO_PRODUCER_ID:
            header = header_of(fields)
            if attributes & CONTROL_BIT:
                marker = decode_marker(buffer)
                if marker is not None:
                    self.producers.check_marker(header, marker, transaction_version)
            else:
                stored = self.producers.check(header, origin, guard)
                if stored is not None:
                    return stored
        base_offset = self.log_end_offset
        last_offset = base_offset + last_delta
        size_bytes = len(buffer)
        segment = self._segments.active
        if not segment.has_room(size_bytes, last_offset, max_timestamp, now_ms, self.config):
            segment = self._roll_unless_empty(segment, now_ms)
        try:
            if leader_epoch != self.leader_epochs.latest_written:
                self.leader_epochs.assign(leader_epoch, base_offset)
            _FRONT.pack_into(buffer, 0, base_offset, length, leader_epoch)
            segment.append(buffer, base_offset, last_offset, max_timestamp, size_bytes)
        except OSError as error:
            raise self._failed(error, segment) from error
        self.log_end_offset = last_offset + 1
        if producer_id != NO_PRODUCER_ID:
            note_batch(self.producers, header, base_offset, marker, segment)
        return None

    def append_as_follower(self, buffer: Buffer, now_ms: int) -> None:
        """Appends batches as the leader sent them. Drops an incomplete last one.

        Raises CorruptRecord for a bad checksum and OffsetsOutOfOrder for batches that do not
        continue the log.
        """
        batches = list(iter_headers(buffer))
        if not batches:
            return
        next_offset = self.log_end_offset
        max_timestamp = NO_TIMESTAMP
        for position, header in batches:
            if not crc_ok(buffer, position, header):
                raise CorruptRecord(f"the batch at offset {header.base_offset} has a bad checksum")
            if header.base_offset < next_offset:
                raise OffsetsOutOfOrder(
                    f"{self.directory.name}: batch at {header.base_offset}, "
                    f"the log ends at {next_offset}"
                )
            next_offset = header.next_offset
            max_timestamp = max(max_timestamp, header.max_timestamp)
        last_position, last_header = batches[-1]
        size_bytes = last_position + last_header.size_bytes
        segment = self._segments.active
        last_offset = last_header.last_offset
        if not segment.has_room(size_bytes, last_offset, max_timestamp, now_ms, self.config):
            segment = self._roll_unless_empty(segment, now_ms)
        try:
            for _, header in batches:
                if header.partition_leader_epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            segment.file.append(memoryview(buffer)[:size_bytes])
        except OSError as error:
            raise self._failed(error, segment) from error
        for position, header in batches:
            segment.note(header.last_offset, header.max_timestamp, header.size_bytes)
            replay_batch(self.producers, memoryview(buffer)[position:], header, segment)
        self.log_end_offset = next_offset

    def _roll_unless_empty(self, segment: Segment, now_ms: int) -> Segment:
        """The new active segment, for an append that does not fit.

        A batch that does not even fit into an empty segment goes there anyway.
        """
        if segment.size_bytes > 0 or self.log_end_offset != segment.base_offset:
            self.roll(now_ms)
        return self._segments.active

    def _failed(self, error: OSError, segment: Segment) -> StorageError:
        """After a failed write: truncates the file to its known end, and classifies the error."""
        if self.sync.is_closed:
            return LogClosed(f"{self.directory.name} is closed")
        try:
            segment.cut_back()
        except OSError as second_error:
            return LogDirFailure(self.directory.parent, f"{segment.path.name}: {second_error}")
        return storage_failure(error, self.directory.parent, segment.path.name)

    def roll(self, now_ms: int) -> None:
        """Finishes the active segment and starts a new one at the log end.

        If the disk refuses, the old segment stays active and the next append retries.
        """
        old = self._segments.active
        if old.size_bytes == 0 and old.base_offset == self.log_end_offset:
            return
        try:
            old.finish_indexes()
            self.sync.require_names()
            self.take_snapshot()
            segment = Segment.create(
                self._files, self.directory, self.log_end_offset, self.config, now_ms
            )
        except OSError as error:
            raise storage_failure(error, self.directory.parent, self.directory.name) from error
        old.tail = b""
        self.sync.segment_finished(old)
        self._add_segment(segment)

    # -- reading

    def read(
        self, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Batches from the one with this offset, up to max_bytes, never past end_offset.

        As in Kafka, the last batch may be cut, but never the first. If the first is larger than
        max_bytes, it comes whole with min_one_batch, otherwise not at all. None if there is
        nothing.
        """
        log_end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > log_end_offset:
            raise OffsetOutOfRange(
                f"{self.directory.name}: offset {offset} is outside "
                f"[{self.log_start_offset}, {log_end_offset}]"
            )
        if offset >= end_offset or offset == log_end_offset:
            if offset == log_end_offset:
                self._reader.remember_tail(offset, self._segments.active.size_bytes)
            return None
        try:
            return self._reader.read(
                offset, max_bytes, min(end_offset, log_end_offset), log_end_offset, min_one_batch
            )
        except OSError as error:
            if self.sync.is_closed:
                raise LogClosed(f"{self.directory.name} is closed") from error
            if isinstance(error, FileNotFoundError):
                # Someone removed an old segment: damage that affects its readers.
                raise CorruptRecord(f"{error.filename} is gone") from error
            raise storage_failure(error, self.directory.parent, self.directory.name) from error

    def offset_for_timestamp(
        self, timestamp: int, end_offset: int
    ) -> Steps[TimestampedOffset | None]:
        """The first record below end_offset with at least this timestamp."""
        segments = list(self._segments.all)
        found = yield from find_timestamp(segments, timestamp, self.log_start_offset)
        return found if found is not None and found.offset < end_offset else None

    def max_timestamp_offset(self, end_offset: int) -> Steps[TimestampedOffset | None]:
        """The first record with the largest timestamp of the log."""
        start = self.log_start_offset
        if start == self.log_end_offset:
            return None
        found = yield from find_largest_timestamp(self._segments.holding(start), start)
        return found if found is not None and found.offset < end_offset else None

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The limit for read_committed: nothing at or after the first open transaction."""
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return high_watermark
        first_unstable = producers.first_unstable_offset(high_watermark)
        if first_unstable is None or first_unstable >= high_watermark:
            return high_watermark
        return max(first_unstable, self.log_start_offset)

    def end_of_slice(self, first_offset: int, records: FileSlice) -> int:
        """An offset at or after the end of what `read` returned for this offset.

        Uses the index, not the batches: the next entry, or the start of the next segment.
        """
        return self._reader.end_of_slice(first_offset, records, self.log_end_offset)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in a range for a read_committed consumer."""
        return self._segments.aborted_transactions(first_offset, end_offset)

    def batches(
        self, first_offset: int, end_offset: int
    ) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Every batch that overlaps the range: its segment, position and header."""
        return self._segments.batches(first_offset, end_offset)

    @property
    def damaged_batches(self) -> int:
        """How many batches reads have found damaged."""
        return len(self._reader.damaged)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def appended_bytes(self) -> int:
        """Current size plus what retention and compaction have removed since the log was opened."""
        return self._segments.size_bytes + self._segments.removed_bytes

    # -- producer snapshots

    def take_snapshot(self) -> None:
        """Writes producer state as of the log end, so that a restart need not replay the log."""
        if self._snapshot_due():
            self._snapshots.take(self.producers, self.log_end_offset)

    def _snapshot_due(self) -> bool:
        return self._snapshots.is_due(self.log_end_offset, self._segments.base_offsets[0])

    # -- cutting

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation: nothing from this offset's segment on counts as synced."""
        self.sync.lower_recovery_point(offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops the batch with this offset and all after it, for a follower that has diverged.

        The log then ends after its last whole batch, at or below the given offset. Call
        LogManager.truncate_to instead, which first lowers the recovery point on disk.
        """
        if offset >= self.log_end_offset:
            # An epoch without records may still start there, and conflict with the leader's.
            self._forget_epochs_from(offset)
            return
        if offset <= self._segments.base_offsets[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        try:
            with self.sync.truncating():
                self.log_end_offset = cut_batches(self._segments, offset)
                # An unclean leader may end before our start.
                self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
                self._after_truncation(now_ms)
        except OSError as error:
            self._check_open()
            raise LogDirFailure(self.directory.parent, f"truncation: {error}") from error
        except CorruptRecord as error:
            raise StorageError(f"could not truncate {self.directory}: {error}") from error

    def _forget_epochs_from(self, offset: int) -> None:
        try:
            self.leader_epochs.truncate_from_end(offset)
        except OSError as error:
            raise LogDirFailure(self.directory.parent, f"truncation: {error}") from error

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drops everything and continues at this offset.

        For a follower whose leader no longer has the records it needs.
        """
        try:
            with self.sync.truncating():
                drop_segments(self._segments, 0)
                self._add_segment(
                    Segment.create(self._files, self.directory, offset, self.config, now_ms)
                )
                self.log_start_offset = offset
                self.log_end_offset = offset
                self._after_truncation(now_ms)
        except OSError as error:
            self._check_open()
            raise LogDirFailure(self.directory.parent, f"truncation: {error}") from error

    def _after_truncation(self, now_ms: int) -> None:
        self._reader.forget_tail()
        self.sync.truncated(self.log_end_offset)
        cut_state(
            self._files,
            self.directory,
            self._segments,
            self.leader_epochs,
            self.producers,
            self._snapshots,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            now_ms=now_ms,
        )

    def _add_segment(self, segment: Segment) -> None:
        self.sync.segment_added()
        self._reader.forget_tail()
        self._segments.add(segment)

    def advance_log_start(self, offset: int) -> None:
        """Hides records below this offset from readers (DeleteRecords, or as the leader did).

        The next retention removes the segments; the next checkpoint of LogManager has the offset.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.directory.name}: {offset} is above the log end {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._forget_old_epochs()

    def _forget_old_epochs(self) -> None:
        """On a full disk this happens later.

        An extra epoch at the start is harmless, and the next start drops it.
        """
        with contextlib.suppress(OSError):
            self.leader_epochs.truncate_from_start(self.log_start_offset)

    def detach_oldest(self, count: int, now_ms: int) -> list[Segment]:
        """Takes the oldest segments out of the log, for `retire`.

        After a crash in between they return, and are due again.
        """
        if count == len(self.segments):
            try:
                self.roll(now_ms)
            except DiskFull:
                if count == 1:
                    raise
                # The others free the space that this one needs next time.
                count -= 1
        detached = self.segments[:count]
        self._segments.forget_first(count)
        first_offset = self._segments.base_offsets[0]
        if first_offset > self.log_start_offset:
            self.log_start_offset = first_offset
            self._forget_old_epochs()
        with contextlib.suppress(OSError):
            # The next start removes the rest.
            self._snapshots.keep_from(first_offset)
        return detached

    def retire(self, segments: list[Segment]) -> RetiredSegments:
        """Renames the files of detached segments.

        Blocks while a sync uses them, so call it from a thread.

        Raises LogClosed if the log was deleted meanwhile: its folder may belong to another log now.
        Reads in progress may still hold the files, so the caller removes them after
        file.delete.delay.ms.
        """
        try:
            with self.sync.using_files():
                self._check_open()
                self.sync.forget(segments)
                self._snapshots.fsync_newest()
                return RetiredSegments(self._files, segments)
        except OSError as error:
            self._check_open()
            raise storage_failure(error, self.directory.parent, "deletion") from error

    def _check_open(self) -> None:
        if self.sync.is_closed:
            raise LogClosed(f"{self.directory.name} is closed")

    # -- compaction

    def swap_in(self, cleaned: Segment, replaced: list[Segment]) -> bool:
        """Replaces segments by the compacted one for all reads from now on.

        False if they are no longer there. `finish_swap` renames its files.
        """
        if self.is_truncating or not self._segments.replace(replaced, cleaned):
            return False
        self._reader.forget_tail()
        return True

    def finish_swap(self, cleaned: Segment, replaced: list[Segment]) -> RetiredSegments:
        """After `swap_in`, applies it on disk. Blocks, so call it from a thread."""
        try:
            with self.sync.using_files():
                self._check_open()
                return rename_swapped(
                    self._files, self.directory, self._segments, cleaned, replaced
                )
        except OSError as error:
            self._check_open()
            raise storage_failure(error, self.directory.parent, "compaction") from error

    # -- ending

    def close(self, now_ms: int, *, clean: bool = True) -> None:
        """Closes the files.

        A clean close leaves indexes and a snapshot, so no recovery is needed.
        """
        try:
            if clean and self.log_end_offset > self.sync.recovery_point:
                self.fsync(now_ms)
            if clean and self._snapshot_due():
                self.active.finish_indexes()
                self.active.fsync_indexes()
                self.take_snapshot()
        except OSError as error:
            raise storage_failure(error, self.directory.parent, "closing") from error
        finally:
            self.sync.close_files()

    def delete(self) -> Path:
        """Renames the folder with a `-delete` suffix. The caller removes it later, in a thread.

        Threads that sync or rename files of the log at this moment fail as they should.
        `wait_until_unused` returns when they are done.
        """
        self.sync.close_files()
        target = self.directory.with_name(name_aside(self.directory.name, DELETE_SUFFIX))
        try:
            self._files.rename(self.directory, target)
        except OSError as error:
            raise storage_failure(error, self.directory.parent, self.directory.name) from error
        return target

    def become(self, current: PartitionLog) -> None:
        """Takes over the state of a log whose records this copy has in full.

        The batches alone do not show all of it: producers and epochs without records are missing.
        """
        try:
            self.leader_epochs.take_over(current.leader_epochs)
            self.producers = current.producers
            self.config = current.config
            self.log_start_offset = max(self.log_start_offset, current.log_start_offset)
            self._snapshots.take(self.producers, self.log_end_offset)
        except OSError as error:
            raise storage_failure(error, self.directory.parent, self.directory.name) from error

    def move_to(self, directory: Path) -> None:
        """Renames the folder while the log stays in use."""
        try:
            self._files.rename(self.directory, directory)
        except OSError as error:
            raise storage_failure(error, self.directory.parent, self.directory.name) from error
        self.directory = directory
        self.leader_epochs.moved(directory)
        self._snapshots.moved(directory)
        self.sync.moved(directory)
        for segment in self._segments.all:
            segment.moved(directory)

    def wait_until_unused(self) -> None:
        """Blocks until no thread uses files of the log. After `delete` none starts to."""
        with self.sync.using_files():
            pass

    # -- flushing

    @property
    def recovery_point(self) -> int:
        return self.sync.recovery_point

    def flush_due(self, now_ms: int) -> bool:
        return self.sync.flush_due(self.log_end_offset, self.config, now_ms)

    def fsync(self, now_ms: int | None = None) -> int:
        """Makes everything written before this call durable. Returns the durable log end.

        Blocks, so call it from a thread while the loop keeps appending.
        """
        return self.sync.fsync(lambda: self.log_end_offset, now_ms)

    def names_due(self, now_ms: int) -> bool:
        return self.sync.names_due(self.config, now_ms)

    def sync_names(self) -> None:
        """Makes the names of all segments durable (blocks)."""
        self.sync.sync_names()
