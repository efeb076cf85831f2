"""Opens a partition's folder, after a clean or unclean shutdown.

After an unclean shutdown, checks every batch from the recovery point's segment on. Cuts the log
before the first corrupt or missing one, and rebuilds indexes, leader epochs and producer state.
Called by PartitionLog.open.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from floodmark.records.record import encode_batch
from floodmark.storage.files import Files
from floodmark.storage.indexes.index_file import CorruptIndex
from floodmark.storage.indexes.offset_index import MAX_RELATIVE_OFFSET
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.log_segments import introduce
from floodmark.storage.log.segment import Segment
from floodmark.storage.log.verification import DamagedBatch
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_replay import rebuild_producers
from floodmark.storage.producers.producer_snapshot import snapshot_offsets, snapshot_path
from floodmark.storage.producers.producer_state import ProducerState
from floodmark.storage.recovery import transaction_index_rebuild
from floodmark.storage.recovery.segment_files import (
    base_offsets_in,
    remove_leftovers,
    tell_of_lost_segments,
)
from floodmark.storage.recovery.segment_recovery import recover_segment, refuse_old_format
from floodmark.vocabulary import NO_TIMESTAMP

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """A folder's contents, ready to become a PartitionLog."""

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
    """Reads and repairs a folder, and finds the start and end of the log."""
    remove_leftovers(files, directory, config)
    opening = _Opening(
        files,
        directory,
        config,
        now_ms,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        producers=ProducerState(producer_expiration_ms),
    )
    opening.check_batches()
    opening.find_end()
    opening.replace_lost_end()
    opening.settle_bounds()
    opening.settle_epochs()
    return opening.finish()


class _Opening:
    """A log on its way from its files to `LoadedLog`.

    The steps run in the order they are defined.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        producers: ProducerState,
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._segments = _load_segments(files, directory, config)
        self._aborts_known = not transaction_index_rebuild.are_aside(files, directory)
        self._clean = clean and self._aborts_known
        self._recovery_point = recovery_point
        self._start_offset = self._believable(log_start_offset)
        self._producers = producers
        self._leader_epochs = LeaderEpochs(files, directory)
        self._epochs_known = self._leader_epochs.load()
        self._end_offset = self._start_offset
        self._end_is_damaged = False
        # Where a batch without records stands for the lost end of the log.
        self._lost_from: int | None = None
        introduce(self._segments, self._leader_epochs)

    def _believable(self, log_start_offset: int) -> int:
        """After a clean shutdown the recovery point is the log end, and no log starts beyond it."""
        if not self._clean or not 0 < self._recovery_point < log_start_offset:
            return log_start_offset
        logger.error(
            "%s: the checkpoint has log start %d, but the log ends at %d: keeping all of it",
            self._directory.name,
            log_start_offset,
            self._recovery_point,
        )
        return 0

    def check_batches(self) -> None:
        if not self._clean:
            checked_from = self._recovery_point if self._aborts_known else 0
            self._recover(checked_from, self._recovery_point)
        if not self._aborts_known:
            transaction_index_rebuild.finish(self._files, self._directory, self._segments)

    def find_end(self) -> None:
        segments = self._segments
        if not segments:
            return
        if self._clean and self._recovery_point > segments[-1].base_offset:
            # A clean shutdown has recorded the end of the log there.
            segments[-1].offset_limit = self._recovery_point
        try:
            self._end_offset = segments[-1].next_offset()
        except DamagedBatch as damage:
            refuse_old_format(segments[-1], damage.position)
            if damage.offset < self._recovery_point:
                logger.error("%s", damage)
                self._end_offset = damage.offset
                self._end_is_damaged = True
                return
            logger.warning("%s: recovering the last segment: %s", self._directory.name, damage)
            within = segments[-1].base_offset + 1
            self._recover(within, max(within, self._recovery_point))
            self._end_offset = segments[-1].next_offset()

    def replace_lost_end(self) -> None:
        """Replaces a lost end, so that an offset assigned to a record is never reused.

        Everything below the recovery point was on disk, so the log reached up to there.
        """
        lost_from = self._end_offset
        if lost_from >= self._recovery_point:
            return
        logger.error(
            "%s: the offsets from %d up to %d are lost or damaged on the disk",
            self._directory.name,
            lost_from,
            self._recovery_point,
        )
        segments = self._segments
        self._end_offset = first_offset = self._recovery_point
        is_short = self._recovery_point - lost_from <= MAX_RELATIVE_OFFSET
        if segments and is_short and not self._end_is_damaged:
            self._lost_from = first_offset = lost_from
            if segments[-1].base_offset == lost_from:
                # Its file exists and is empty.
                _drop(segments, len(segments) - 1)
        self._add_segment(first_offset)
        introduce(segments, self._leader_epochs)

    def settle_bounds(self) -> None:
        segments = self._segments
        if segments and self._end_offset < self._start_offset:
            # DeleteRecords went further than the rest of the log.
            logger.warning(
                "%s: the log ends at %d but started at %d: restarting it there, empty",
                self._directory.name,
                self._end_offset,
                self._start_offset,
            )
            _drop(segments, 0)
        if not segments:
            self._add_segment(self._start_offset)
            self._end_offset = self._start_offset
        self._start_offset = max(self._start_offset, segments[0].base_offset)
        self._end_offset = max(self._end_offset, segments[-1].base_offset)
        segments[-1].offset_limit = self._end_offset

    def settle_epochs(self) -> None:
        if not self._epochs_known:
            self._leader_epochs = _epochs_from_log(self._files, self._directory, self._segments)
            introduce(self._segments, self._leader_epochs)
        # In one step: at the next start, half a list would pass for a whole one.
        self._leader_epochs.write()
        self._leader_epochs.truncate_from_end(self._end_offset)
        self._leader_epochs.truncate_from_start(self._start_offset)
        if self._lost_from is not None:
            leader_epoch = self._leader_epochs.epoch_for(self._lost_from)
            _lead_over(self._segments[-1], self._lost_from, self._end_offset, leader_epoch)
            self._files.fsync_dir(self._directory)

    def finish(self) -> LoadedLog:
        _remove_stray_snapshots(self._files, self._directory, self._segments, self._end_offset)
        self._rebuild_producers(self._segments, self._start_offset, self._end_offset)
        for segment in self._segments[:-1]:
            segment.settle_indexes()
        active = self._segments[-1]
        active.load_indexes()
        if active.size_bytes == 0:
            # A broker may have many thousands of empty logs.
            active.close_file()
        return LoadedLog(
            self._segments,
            self._producers,
            self._leader_epochs,
            self._start_offset,
            self._end_offset,
            self._end_offset if self._clean else min(self._recovery_point, self._end_offset),
        )

    def _add_segment(self, first_offset: int) -> None:
        self._segments.append(
            Segment.create(self._files, self._directory, first_offset, self._config, self._now_ms)
        )

    def _rebuild_producers(
        self, segments: list[Segment], first_offset: int, end_offset: int
    ) -> None:
        rebuild_producers(
            self._files,
            self._directory,
            segments,
            self._producers,
            first_offset=first_offset,
            end_offset=end_offset,
            now_ms=self._now_ms,
        )

    def _recover(self, checked_from: int, recovery_point: int) -> None:
        """Checks the segments that reach above `checked_from`.

        Cuts the log at the first fault above the recovery point.

        A segment that ends exactly there is checked too: its indexes may have been finished after
        the last sync.
        """
        segments = self._segments
        if not segments:
            return
        first = max(
            (slot for slot, segment in enumerate(segments) if segment.base_offset < checked_from),
            default=0,
        )
        start_offset = segments[first].base_offset
        known_epochs = self._leader_epochs.copy()
        # After a truncation the disk may keep the new epochs and the old batches. The batches being
        # checked say themselves which epochs wrote them. Otherwise a follower would claim to agree
        # with its leader.
        self._leader_epochs.forget_from(start_offset)
        for offset in snapshot_offsets(self._files, self._directory):
            if offset > start_offset:
                # It covers what is about to be checked, and may have survived what it describes.
                self._files.remove(snapshot_path(self._directory, offset))
        self._rebuild_producers(segments[:first], segments[0].base_offset, start_offset)
        for slot in range(first, len(segments)):
            is_whole = self._recover_segment(segments[slot], known_epochs, recovery_point)
            if not is_whole or self._is_hole_behind(slot, recovery_point):
                if slot + 1 < len(segments):
                    logger.warning(
                        "%s: dropping the segments after offset %d",
                        self._directory.name,
                        self._next_offset(segments[slot]),
                    )
                _drop(segments, slot + 1)
                break
        for segment in segments[first:-1]:
            # The next sync of the log moves the recovery point past them.
            segment.fsync_indexes()

    def _recover_segment(
        self, segment: Segment, known_epochs: LeaderEpochs, recovery_point: int
    ) -> bool:
        segment.leader_epochs = known_epochs
        is_whole = recover_segment(
            segment,
            self._producers,
            self._leader_epochs,
            recovery_point,
            holes_at_end=self._config.is_compacted,
        )
        segment.leader_epochs = self._leader_epochs
        return is_whole

    def _next_offset(self, recovered: Segment) -> int:
        return max(self._producers.end_offset, recovered.base_offset)

    def _is_hole_behind(self, slot: int, recovery_point: int) -> bool:
        """Whether batches are missing before the next segment because they never reached the disk.

        Below the recovery point all of them did: a gap there is due to retention or compaction.
        """
        if slot + 1 == len(self._segments):
            return False
        offset_limit = self._segments[slot + 1].base_offset
        end_offset = self._next_offset(self._segments[slot])
        return end_offset != offset_limit and offset_limit > recovery_point


def _load_segments(files: Files, directory: Path, config: LogConfig) -> list[Segment]:
    if not config.is_compacted:
        tell_of_lost_segments(files, directory)
    base_offsets = base_offsets_in(files, directory)
    try:
        segments = [Segment.load(files, directory, offset, config) for offset in base_offsets]
    except CorruptIndex:
        transaction_index_rebuild.put_aside(files, directory, base_offsets)
        segments = [Segment.load(files, directory, offset, config) for offset in base_offsets]
    for segment in segments[:-1]:
        if segment.size_bytes == 0 and not config.is_compacted:
            logger.error("%s has lost its records: the file is empty", segment.path)
    return segments


def _drop(segments: list[Segment], keep: int) -> None:
    for segment in segments[keep:]:
        segment.close_file()
        segment.remove_files()
    del segments[keep:]


def _lead_over(segment: Segment, lost_from: int, end_offset: int, leader_epoch: int) -> None:
    """Writes a batch without records where the end of the log is lost, like compaction does.

    Without it, a reader up to the end would wait there until the next append.

    It is synced, because it now defines the end of the log.
    """
    last_offset = end_offset - 1
    batch = encode_batch(
        [], base_offset=lost_from, last_offset=last_offset, leader_epoch=leader_epoch
    )
    segment.append(batch, lost_from, last_offset, NO_TIMESTAMP, len(batch))
    segment.fsync()


def _epochs_from_log(files: Files, directory: Path, segments: list[Segment]) -> LeaderEpochs:
    """The epoch file is missing or corrupt: rebuilds the epochs from the headers."""
    found = LeaderEpochs(files, directory)
    for segment in segments:
        # There is no list to check against until this one is complete.
        segment.leader_epochs = None
        place: tuple[int, int] | None = (0, segment.base_offset)
        while place is not None:
            place = _collect_epochs(segment, *place, found)
    return found


def _collect_epochs(
    segment: Segment, position: int, base_offset: int, found: LeaderEpochs
) -> tuple[int, int] | None:
    """Where to continue after a damaged batch, which is skipped."""
    try:
        for _, header in segment.headers(position, segment.size_bytes, base_offset):
            found.begin(header.partition_leader_epoch, header.base_offset)
    except DamagedBatch as damage:
        return damage.after
    return None


def _remove_stray_snapshots(
    files: Files, directory: Path, segments: list[Segment], log_end_offset: int
) -> None:
    """Keeps the snapshots at the start of a segment or at the end of the log."""
    wanted = {segment.base_offset for segment in segments} | {log_end_offset}
    for offset in snapshot_offsets(files, directory):
        if offset not in wanted:
            files.remove(snapshot_path(directory, offset))
