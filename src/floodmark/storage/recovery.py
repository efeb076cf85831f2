"""Opening a partition's folder, after a clean stop or after any other.

After an unclean stop every batch from the segment of the recovery point on is checked; the log is
cut before the first one that is broken or missing, and indexes, leader epochs and producer state
are made anew. Called by PartitionLog.open.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from floodmark.records.batch import NO_TIMESTAMP
from floodmark.records.record import encode_batch
from floodmark.storage import broken_aborts
from floodmark.storage.errors import UnsupportedLogFormat
from floodmark.storage.files import Files
from floodmark.storage.index_file import CorruptIndex
from floodmark.storage.leader_epochs import LeaderEpochs
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_segments import introduce
from floodmark.storage.offset_index import MAX_RELATIVE_OFFSET
from floodmark.storage.producer_replay import rebuild_producers, replay_batch
from floodmark.storage.producer_snapshot import snapshot_offsets, snapshot_path
from floodmark.storage.producer_state import ProducerState
from floodmark.storage.segment import Segment
from floodmark.storage.segment_files import (
    base_offsets_in,
    remove_leftovers,
    tell_of_lost_segments,
)
from floodmark.storage.verification import BatchWalk, DamagedBatch, next_whole_batch

_log = logging.getLogger(__name__)
_CHUNK_BYTES: Final = 1 << 20
_OLD_MAGIC_POSITION: Final = 16
_OLD_MESSAGE_MIN_BYTES: Final = 14


@dataclass(slots=True)
class LoadedLog:
    """What a folder held, ready to be a PartitionLog."""

    segments: list[Segment]
    producers: ProducerState
    leader_epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


def load_log(
    files: Files,
    directory: Path,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    producer_expiration_ms: int,
) -> LoadedLog:
    """Read a folder, make it whole, and tell where the log starts and ends."""
    remove_leftovers(files, directory, config)
    segments = _load_segments(files, directory, config)
    aborts_known = not broken_aborts.are_aside(files, directory)
    checked_from = recovery_point if aborts_known else 0
    clean = clean and aborts_known
    if clean and 0 < recovery_point < log_start_offset:
        # After a clean stop the recovery point is the log's end, and no log begins behind that.
        _log.error(
            "%s: the checkpoint says that it begins at %d, but it ends at %d: all of it is kept",
            directory.name,
            log_start_offset,
            recovery_point,
        )
        log_start_offset = 0
    producers = ProducerState(producer_expiration_ms)
    leader_epochs = LeaderEpochs(files, directory)
    epochs_known = leader_epochs.load()
    introduce(segments, leader_epochs)
    recover = partial(
        _recover, files, directory, config, segments, producers, leader_epochs, now_ms=now_ms
    )
    if not clean:
        recover(checked_from=checked_from, recovery_point=recovery_point)
    if not aborts_known:
        broken_aborts.made_anew(files, directory, segments)
    if clean and segments and recovery_point > segments[-1].base_offset:
        # A clean stop has left the end of the log there.
        segments[-1].offset_limit = recovery_point
    end_is_known, is_damaged = clean, False
    try:
        log_end_offset = segments[-1].next_offset() if segments else log_start_offset
    except DamagedBatch as damage:
        _refuse_old_format(segments[-1], damage.position)
        if damage.offset < recovery_point:
            _log.error("%s", damage)
            log_end_offset, end_is_known, is_damaged = damage.offset, True, True
        else:
            _log.warning("%s: recovering the last segment: %s", directory.name, damage)
            within = segments[-1].base_offset + 1
            recover(checked_from=within, recovery_point=within)
            log_end_offset = segments[-1].next_offset()
    lost_from: int | None = None
    if end_is_known and log_end_offset < recovery_point:
        # All of this was on the disk as it should be, and a clean stop leaves nothing above the
        # recovery point: so the end is known, though the way to it is not. An offset that was
        # given to a record is never given to another.
        _log.error(
            "%s: the offsets from %d up to %d are lost or damaged on the disk",
            directory.name,
            log_end_offset,
            recovery_point,
        )
        is_short = recovery_point - log_end_offset <= MAX_RELATIVE_OFFSET
        if segments and is_short and not is_damaged:
            lost_from = log_end_offset
            if segments[-1].base_offset == lost_from:
                # Its file is there, and empty.
                _drop(segments, len(segments) - 1)
        log_end_offset = recovery_point
        first_offset = log_end_offset if lost_from is None else lost_from
        segments.append(Segment.create(files, directory, first_offset, config, now_ms))
        introduce(segments, leader_epochs)
    if segments and log_end_offset < log_start_offset:
        # DeleteRecords went further than what is left of the log.
        _log.warning(
            "%s: the log ends at %d and began at %d: it begins there again, empty",
            directory.name,
            log_end_offset,
            log_start_offset,
        )
        _drop(segments, 0)
        log_end_offset = log_start_offset
    if not segments:
        segments.append(Segment.create(files, directory, log_start_offset, config, now_ms))
        log_end_offset = log_start_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    log_end_offset = max(log_end_offset, segments[-1].base_offset)
    segments[-1].offset_limit = log_end_offset
    if not epochs_known:
        leader_epochs = _epochs_from_log(files, directory, segments)
        introduce(segments, leader_epochs)
    # In one step: half a list would be taken for a whole one at the next start.
    leader_epochs.write()
    leader_epochs.truncate_from_end(log_end_offset)
    leader_epochs.truncate_from_start(log_start_offset)
    if lost_from is not None:
        leader_epoch = leader_epochs.epoch_for(lost_from)
        _lead_over(segments[-1], lost_from, log_end_offset, leader_epoch)
        files.fsync_dir(directory)
    _remove_stray_snapshots(files, directory, segments, log_end_offset)
    rebuild_producers(
        files,
        directory,
        segments,
        producers,
        first_offset=log_start_offset,
        end_offset=log_end_offset,
        now_ms=now_ms,
    )
    segments[-1].load_indexes()
    return LoadedLog(
        segments,
        producers,
        leader_epochs,
        log_start_offset,
        log_end_offset,
        log_end_offset if clean else min(recovery_point, log_end_offset),
    )


def _lead_over(segment: Segment, lost_from: int, end_offset: int, leader_epoch: int) -> None:
    """Put a batch without records where the end of the log is lost, as compaction leaves them:
    without one, who reads up to the end would wait there until the next append.

    It is synced, because the end of the log is known by it from now on.
    """
    last_offset = end_offset - 1
    batch = encode_batch(
        [], base_offset=lost_from, last_offset=last_offset, leader_epoch=leader_epoch
    )
    segment.append(batch, lost_from, last_offset, NO_TIMESTAMP, len(batch))
    segment.fsync()


def _load_segments(files: Files, directory: Path, config: LogConfig) -> list[Segment]:
    if not config.is_compacted:
        tell_of_lost_segments(files, directory)
    base_offsets = base_offsets_in(files, directory)
    try:
        segments = [Segment.load(files, directory, offset, config) for offset in base_offsets]
    except CorruptIndex:
        broken_aborts.put_aside(files, directory, base_offsets)
        segments = [Segment.load(files, directory, offset, config) for offset in base_offsets]
    for segment in segments[:-1]:
        if segment.size_bytes == 0 and not config.is_compacted:
            _log.error("%s has lost its records: the file is empty", segment.path)
    return segments


def _recover(
    files: Files,
    directory: Path,
    config: LogConfig,
    segments: list[Segment],
    producers: ProducerState,
    leader_epochs: LeaderEpochs,
    *,
    checked_from: int,
    recovery_point: int,
    now_ms: int,
) -> None:
    """Check the segments that reach above `checked_from`; cut the log at the first fault above the
    recovery point.

    One that ends right there is checked, too: its indexes may have been finished after the last
    sync.
    """
    if not segments:
        return
    first = max(
        (slot for slot, segment in enumerate(segments) if segment.base_offset < checked_from),
        default=0,
    )
    start_offset = segments[first].base_offset
    known_epochs = leader_epochs.copy()
    # After a truncation the disk may keep the new epochs and the old batches: what is about to be
    # checked says itself which epochs wrote it, or a follower would claim to agree with its leader.
    leader_epochs.forget_from(start_offset)
    for offset in snapshot_offsets(files, directory):
        if offset > start_offset:
            # It covers what is about to be checked, and may have survived what it describes.
            files.remove(snapshot_path(directory, offset))
    rebuild_producers(
        files,
        directory,
        segments[:first],
        producers,
        first_offset=segments[0].base_offset,
        end_offset=start_offset,
        now_ms=now_ms,
    )
    for slot in range(first, len(segments)):
        segment = segments[slot]
        segment.leader_epochs = known_epochs
        whole = recover_segment(
            segment,
            producers,
            leader_epochs,
            recovery_point,
            holes_at_end=config.is_compacted,
        )
        segment.leader_epochs = leader_epochs
        next_offset = max(producers.end_offset, segment.base_offset)
        is_last = slot + 1 == len(segments)
        if not whole or (
            not is_last and _is_hole(next_offset, segments[slot + 1].base_offset, recovery_point)
        ):
            if not is_last:
                _log.warning(
                    "%s: dropping the segments after offset %d", directory.name, next_offset
                )
            _drop(segments, slot + 1)
            break
    for segment in segments[first:-1]:
        # The next sync of the log moves the recovery point past them.
        segment.fsync_indexes()


def _is_hole(end_offset: int, offset_limit: int, recovery_point: int) -> bool:
    """Whether batches are missing between two segments because they never reached the disk.

    Below the recovery point all of them did: a gap there is the work of retention or compaction.
    """
    return end_offset != offset_limit and offset_limit > recovery_point


def recover_segment(
    segment: Segment,
    producers: ProducerState,
    leader_epochs: LeaderEpochs,
    recovery_point: int,
    *,
    holes_at_end: bool,
) -> bool:
    """Walk all batches with their checksums, rebuild the indexes, cut a broken tail; True when
    there was none.

    Below the recovery point nothing can be torn: what is broken there has been changed by the disk.
    It stays where it is, for reads to find, and the walk goes on behind it.
    """
    size_bytes = segment.file.size()
    indexed = _index_entries(segment)
    segment.start_over()
    segment.transaction_index.reset()
    scan = _Scan(segment, producers, leader_epochs, size_bytes, holes_at_end=holes_at_end)
    trusted_from = 0
    while (fault := scan.run()) is not None:
        _refuse_old_format(segment, segment.size_bytes)
        after = (
            next_whole_batch(segment, segment.size_bytes, size_bytes, scan.next_offset, indexed)
            if scan.next_offset < recovery_point
            else None
        )
        if after is None and scan.next_offset < recovery_point:
            _log.error("%s: %s; what follows cannot be found", segment.path, fault)
            segment.size_bytes = trusted_from = size_bytes
            segment.offset_limit = segment.offset_limit or recovery_point
            # The rest of it is there, though nobody can read it: no hole before the next segment.
            producers.end_offset = segment.offset_limit
            break
        if after is None:
            _log.warning(
                "%s: cutting %d bytes at offset %d: %s",
                segment.path,
                size_bytes - segment.size_bytes,
                scan.next_offset,
                fault,
            )
            segment.file.truncate(segment.size_bytes)
            break
        _log.error(
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
    """Where batches begin, if the index that recovery is about to replace can be read."""
    try:
        segment.offset_index.load(segment.size_bytes)
    except CorruptIndex:
        return []
    return list(segment.offset_index.entries_after(0))


class _Scan:
    """The walk of recovery over one segment; it can go on behind a fault."""

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
        """Take in all batches from the segment's known end on; what is wrong with the first that
        is not whole, which is there."""
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


def _refuse_old_format(segment: Segment, position: int) -> None:
    """Where a batch cannot be read: a whole message of magic 0 or 1 is data, not a fault.

    Such a message has its length where a batch has it, a CRC32 behind that and then the magic.
    """
    front = segment.file.pread(_OLD_MAGIC_POSITION + 1, position)
    if len(front) <= _OLD_MAGIC_POSITION or front[_OLD_MAGIC_POSITION] > 1:
        return
    length = int.from_bytes(front[8:12], "big", signed=True)
    crc = int.from_bytes(front[12:16], "big")
    if length < _OLD_MESSAGE_MIN_BYTES:
        return
    body = segment.file.pread(min(length - 4, _CHUNK_BYTES), position + 16)
    if zlib.crc32(body) == crc:
        raise UnsupportedLogFormat(
            f"{segment.path} holds messages in the format of Kafka 0.10 or older; let Kafka 3.x "
            "rewrite the topic, or move the folder away"
        )


def _drop(segments: list[Segment], keep: int) -> None:
    for segment in segments[keep:]:
        segment.close_file()
        segment.remove_files()
    del segments[keep:]


def _epochs_from_log(files: Files, directory: Path, segments: list[Segment]) -> LeaderEpochs:
    """The epoch file is missing or broken: every epoch that wrote something stands in the
    headers."""
    found = LeaderEpochs(files, directory)
    for segment in segments:
        # There is no list to check against before this one is complete.
        segment.leader_epochs = None
        place: tuple[int, int] | None = (0, segment.base_offset)
        while place is not None:
            place = _collect_epochs(segment, *place, found)
    return found


def _collect_epochs(
    segment: Segment, position: int, base_offset: int, found: LeaderEpochs
) -> tuple[int, int] | None:
    """Where to go on behind a damaged batch, which has no part in it."""
    try:
        for _, header in segment.headers(position, segment.size_bytes, base_offset):
            found.begin(header.partition_leader_epoch, header.base_offset)
    except DamagedBatch as damage:
        return damage.after
    return None


def _remove_stray_snapshots(
    files: Files, directory: Path, segments: list[Segment], log_end_offset: int
) -> None:
    """Keep the snapshots that lie at the start of a segment or at the end of the log."""
    wanted = {segment.base_offset for segment in segments} | {log_end_offset}
    for offset in snapshot_offsets(files, directory):
        if offset not in wanted:
            files.remove(snapshot_path(directory, offset))
