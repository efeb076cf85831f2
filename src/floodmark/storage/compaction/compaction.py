"""Compacts one log: keeps the last value of every key, and drops what it replaced.

Makes two passes over segments that are no longer written to. The first records the last offset of
each key in the dirty part. The second copies all segments up to there without the replaced records.
The copies are `*.cleaned` files, which the broker swaps in (`PartitionLog.swap_in`). Offsets never
change.

Runs in a separate process (compaction_worker.py) and uses only files. Follows Kafka's rules:
tombstones and markers get a delete horizon once nobody needs them, and go when it has passed
(KIP-534). The last batch of every active producer stays, if necessary without its records, because
it carries the sequence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from floodmark.records.batch import BatchHeader, crc_ok, iter_headers
from floodmark.records.control import decode_marker
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.record import Record, decode_within_limits, encode_batch
from floodmark.storage.compaction.cleaned_segment import CleanedSegment, emptied, placeholder
from floodmark.storage.compaction.cleaned_transactions import CleanedTransactions
from floodmark.storage.compaction.key_offsets import KeyOffsets
from floodmark.storage.files import File, Files
from floodmark.storage.indexes.offset_index import MAX_RELATIVE_OFFSET
from floodmark.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from floodmark.storage.log.segment import segment_path
from floodmark.storage.log_config import LogConfig
from floodmark.vocabulary import NO_OFFSET

_READ_BYTES: Final = 1 << 20


@dataclass(slots=True, frozen=True)
class SourceSegment:
    """A segment to compact. `end_offset` is where the next one starts."""

    base_offset: int
    end_offset: int
    size_bytes: int
    index_bytes: int


@dataclass(slots=True, frozen=True)
class LastRecord:
    """An active producer's last write. Without data, the epoch identifies its marker."""

    producer_epoch: int
    last_data_offset: int = NO_OFFSET


@dataclass(slots=True, frozen=True)
class CompactionJob:
    """The cleaner process's input. `segments` end where the log must not be touched."""

    directory: str
    segments: list[SourceSegment]
    first_dirty_offset: int
    now_ms: int
    dedupe_buffer_bytes: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    # An aborted transaction's index entry is in its marker's segment, perhaps a later one.
    index_base_offsets: list[int] = field(default_factory=list)
    active_producers: dict[int, LastRecord] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            delete_retention_ms=self.delete_retention_ms,
        )


@dataclass(slots=True, frozen=True)
class CleanedGroup:
    """A finished `*.cleaned` segment and the segments it replaces."""

    base_offset: int
    replaced: list[int]
    bytes_before: int
    bytes_after: int


Pace = Callable[[int], None]
"""Gets the bytes read and written, and may sleep to limit the cleaner's IO."""


def compact(
    files: Files, job: CompactionJob, emit: Callable[[CleanedGroup], None], pace: Pace
) -> int:
    """Writes the new segments, reports each, and returns the offset up to which the log is clean.

    Raises CorruptRecord for a damaged batch, which must not be copied under a new checksum, and
    CorruptIndex if it is unknown what was aborted.
    """
    # A killed broker may have left the last rename of a swap unsynced. If the power fails now,
    # recovery must not find that swap next to our new files: it would treat it as unfinished work.
    files.fsync_dir(Path(job.directory))
    aborted = _aborted_transactions(files, job)
    keys, clean_end = _map_keys(files, job, aborted, pace)
    first_offset = job.segments[0].base_offset
    transactions = CleanedTransactions(e for e in aborted if e.last_offset >= first_offset)
    rules = _Rules(job, keys, clean_end, transactions)
    for group in group_segments(job, clean_end):
        emit(_clean_group(files, job, group, rules, pace))
    return clean_end


def group_segments(job: CompactionJob, clean_end: int) -> list[list[SourceSegment]]:
    """Groups adjacent segments that fit into one, by size, index and offset range."""
    groups: list[list[SourceSegment]] = []
    size_bytes = index_bytes = 0
    for segment in job.segments:
        if segment.base_offset >= clean_end:
            break
        size_bytes += segment.size_bytes
        index_bytes += segment.index_bytes
        if (
            groups
            and size_bytes <= job.segment_bytes
            and index_bytes <= job.segment_index_bytes
            and segment.end_offset - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes, index_bytes = segment.size_bytes, segment.index_bytes
    return groups


def _map_keys(
    files: Files, job: CompactionJob, aborted: list[AbortedTransaction], pace: Pace
) -> tuple[KeyOffsets, int]:
    """The last offsets of keys in the dirty part, and where the memory for them ran out."""
    keys = KeyOffsets(job.dedupe_buffer_bytes)
    start = job.first_dirty_offset
    transactions = CleanedTransactions(e for e in aborted if e.last_offset >= start)
    for segment in job.segments:
        if segment.end_offset <= start:
            continue
        for chunk, position, header in _batches(files, job, segment, pace):
            if header.last_offset < start:
                continue
            if header.is_control:
                transactions.end(header, decode_marker(chunk, position))
            elif not transactions.is_aborted(header):
                with contextlib.suppress(DecompressionTooLarge):
                    keys.add(decode_within_limits(chunk, position, header), start)
                if keys.is_full and header.next_offset < segment.end_offset:
                    return keys, header.next_offset
        if keys.is_full:
            return keys, segment.end_offset
    return keys, job.end_offset


class _Verdict(NamedTuple):
    """The outcome for a batch: the bytes to write or None, and an abort for the new index."""

    data: bytes | bytearray | memoryview | None
    max_timestamp: int
    aborted: AbortedTransaction | None = None


class _Rules:
    """Decides for each batch what stays."""

    def __init__(
        self,
        job: CompactionJob,
        keys: KeyOffsets,
        clean_end: int,
        transactions: CleanedTransactions,
    ) -> None:
        self._keys = keys
        self._clean_end = clean_end
        self._transactions = transactions
        self._now_ms = job.now_ms
        self._new_horizon_ms = job.now_ms + job.delete_retention_ms
        self._producers = job.active_producers
        self._end_offset = job.end_offset

    def judge(self, chunk: bytes, position: int, header: BatchHeader) -> _Verdict:
        aborted: AbortedTransaction | None = None
        ends_nothing = False
        if header.is_control:
            marker = decode_marker(chunk, position)
            ends_nothing, aborted = self._transactions.end(header, marker)
            drop_records = ends_nothing and self._is_past_horizon(header)
        else:
            drop_records = self._transactions.is_aborted(header)
        if drop_records and not self._must_stay(header):
            return _Verdict(None, header.max_timestamp)
        try:
            records = [] if drop_records else decode_within_limits(chunk, position, header)
        except DecompressionTooLarge:
            # Decompressing it could take gigabytes. It stays whole and replaces nothing.
            return _Verdict(_as_it_is(chunk, position, header), header.max_timestamp, aborted)
        kept = records if header.is_control else self._kept(records, header)
        if not kept:
            empty = emptied(header) if self._must_stay(header) else None
            return _Verdict(empty, header.max_timestamp, aborted)
        needs_horizon = not header.has_delete_horizon and (
            ends_nothing or (not header.is_control and any(record.value is None for record in kept))
        )
        if len(kept) == header.records_count and not needs_horizon:
            return _Verdict(_as_it_is(chunk, position, header), header.max_timestamp, aborted)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if needs_horizon:
            horizon_ms = self._new_horizon_ms
        return _Verdict(_encode(header, kept, horizon_ms), max(r.timestamp for r in kept), aborted)

    def _kept(self, records: list[Record], header: BatchHeader) -> list[Record]:
        latest = self._keys.latest
        drop_tombstones = self._is_past_horizon(header)
        kept = []
        for record in records:
            offset, _, key, value, _ = record
            if offset >= self._clean_end:
                kept.append(record)
            elif key is None or offset < latest(key) or (value is None and drop_tombstones):
                continue
            else:
                kept.append(record)
        return kept

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        """The last batch of a producer, and of the round: followers must reach its offset."""
        if header.next_offset == self._end_offset:
            return True
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset != NO_OFFSET:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def _clean_group(
    files: Files, job: CompactionJob, group: list[SourceSegment], rules: _Rules, pace: Pace
) -> CleanedGroup:
    output = CleanedSegment(files, Path(job.directory), group[0].base_offset, job.log_config())
    try:
        dropped_last: BatchHeader | None = None
        for segment in group:
            for chunk, position, header in _batches(files, job, segment, pace):
                verdict = rules.judge(chunk, position, header)
                if verdict.aborted is not None:
                    output.note_aborted(verdict.aborted)
                if verdict.data is None:
                    dropped_last = header
                    continue
                dropped_last = None
                output.append(verdict.data, header.last_offset, verdict.max_timestamp)
                pace(len(verdict.data))
        if dropped_last is not None:
            # Segments must be contiguous: recovery would treat a gap as lost data.
            output.append(placeholder(dropped_last), dropped_last.last_offset, NO_OFFSET)
        output.finish()
    except BaseException:
        output.discard()
        raise
    return CleanedGroup(
        base_offset=group[0].base_offset,
        replaced=[segment.base_offset for segment in group],
        bytes_before=sum(segment.size_bytes for segment in group),
        bytes_after=output.size_bytes,
    )


def _as_it_is(chunk: bytes, position: int, header: BatchHeader) -> memoryview:
    return memoryview(chunk)[position : position + header.size_bytes]


def _encode(header: BatchHeader, records: list[Record], horizon_ms: int | None) -> bytearray:
    """Encodes the batch with fewer records. Its offset range and sequences stay."""
    return encode_batch(
        records,
        base_offset=header.base_offset,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        leader_epoch=header.partition_leader_epoch,
        timestamp_type=header.timestamp_type,
        keep_offsets=True,
        last_offset=header.last_offset,
        delete_horizon_ms=horizon_ms,
    )


def _aborted_transactions(files: Files, job: CompactionJob) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for base_offset in job.index_base_offsets:
        path = segment_path(Path(job.directory), base_offset, ".txnindex")
        index = TransactionIndex(files, path, base_offset)
        index.load()
        found += index.entries
    return found


def _batches(
    files: Files, job: CompactionJob, segment: SourceSegment, pace: Pace
) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Every batch of the segment, after checking its checksum."""
    path = segment_path(Path(job.directory), segment.base_offset, ".log")
    # Never created: retention may have removed it meanwhile.
    file = files.open(path, create=False)
    try:
        position = 0
        while position < segment.size_bytes:
            chunk = _read_chunk(file, position, segment.size_bytes)
            pace(len(chunk))
            end = 0
            for inside, header in iter_headers(chunk):
                if not crc_ok(chunk, inside, header):
                    raise CorruptRecord(f"{path}: bad checksum at offset {header.base_offset}")
                yield chunk, inside, header
                end = inside + header.size_bytes
            if end == 0:
                raise CorruptRecord(f"{path}: no whole batch at position {position}")
            position += end
    finally:
        file.close()


def _read_chunk(file: File, position: int, size_bytes: int) -> bytes:
    """Reads a megabyte, or a whole larger batch."""
    front = file.pread(12, position)
    batch_bytes = 12 + int.from_bytes(front[8:12], "big")
    return file.pread(min(size_bytes - position, max(_READ_BYTES, batch_bytes)), position)
