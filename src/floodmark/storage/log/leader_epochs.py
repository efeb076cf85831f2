"""The start offset of each leader epoch, by which followers truncate (KIP-101, KIP-279).

Called by partition_log.py. Kept in memory and written to `leader-epoch-checkpoint` on every change.
It is not synced then, because the batches above the recovery point contain what may be lost, and
the log's fsync syncs this file before it moves that point.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from floodmark.storage.checkpoints import CorruptCheckpoint, read_pairs, write_pairs
from floodmark.storage.files import Files
from floodmark.vocabulary import NO_LEADER_EPOCH, NO_OFFSET

FILE_NAME: Final = "leader-epoch-checkpoint"
# In place of an epoch: the file differs from memory.
_ANOTHER_LIST: Final = -2


class EpochEndOffset(NamedTuple):
    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """Epochs with their start offsets, both ascending."""

    __slots__ = (
        "_directory",
        "_dirty",
        "_files",
        "epochs",
        "latest",
        "latest_written",
        "start_offsets",
    )

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._dirty = False
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        self.latest = NO_LEADER_EPOCH
        # Lags behind `latest` while an epoch has no records. A field, because every append reads
        # it.
        self.latest_written = NO_LEADER_EPOCH

    @property
    def _path(self) -> Path:
        return self._directory / FILE_NAME

    def load(self) -> bool:
        """Reads the file.

        False if it is missing or corrupt, and the epochs must come from the log.
        """
        try:
            pairs = read_pairs(self._files, self._path)
        except CorruptCheckpoint:
            return False
        if pairs is None or not all(
            earlier[0] < later[0] and earlier[1] < later[1] for earlier, later in pairwise(pairs)
        ):
            return False
        self._set([epoch for epoch, _ in pairs], [start_offset for _, start_offset in pairs])
        self.latest_written = self.latest
        return True

    def copy(self) -> LeaderEpochs:
        """A copy to compare with."""
        copied = LeaderEpochs(self._files, self._directory)
        copied._set(list(self.epochs), list(self.start_offsets))
        return copied

    def take_over(self, others: LeaderEpochs) -> None:
        """Becomes a copy of another log's epochs, including those without records (KAFKA-20961)."""
        self._replace(list(others.epochs), list(others.start_offsets))

    def moved(self, directory: Path) -> None:
        """The folder has been renamed."""
        self._directory = directory

    def begin(self, leader_epoch: int, start_offset: int) -> None:
        """Starts a new leader's epoch at the log end, in memory only.

        So a full disk does not prevent leading. The file follows with the first record (`assign`).
        A restart would drop an epoch without records.
        """
        if leader_epoch > self.latest:
            self._set(*self._with(leader_epoch, start_offset))

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Records that an epoch starts at this offset. A known epoch keeps its start.

        Removes conflicting entries: later epochs, and those that start at or after its offset.
        """
        if leader_epoch < 0:
            return
        if leader_epoch > self.latest or leader_epoch not in self.epochs:
            self._replace(*self._with(leader_epoch, start_offset))
        else:
            self.write()

    def _with(self, leader_epoch: int, start_offset: int) -> tuple[list[int], list[int]]:
        keep = len(self.epochs)
        while keep and (
            self.epochs[keep - 1] >= leader_epoch or self.start_offsets[keep - 1] >= start_offset
        ):
            keep -= 1
        return [*self.epochs[:keep], leader_epoch], [*self.start_offsets[:keep], start_offset]

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch not above the requested one, and its end; (-1, -1) if unknown."""
        if leader_epoch == NO_LEADER_EPOCH or not self.epochs or leader_epoch > self.latest:
            return EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)
        if leader_epoch == self.latest:
            return EpochEndOffset(leader_epoch, log_end_offset)
        above = bisect_right(self.epochs, leader_epoch)
        if above == 0:
            # Older than all known epochs: it ends where our first epoch starts.
            return EpochEndOffset(leader_epoch, self.start_offsets[0])
        return EpochEndOffset(self.epochs[above - 1], self.start_offsets[above])

    def epoch_for(self, offset: int) -> int:
        """The epoch in which this offset was written, or -1 if it is older than all known ones."""
        slot = bisect_right(self.start_offsets, offset) - 1
        return self.epochs[slot] if slot >= 0 else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops epochs that start at or after the new end of the log."""
        keep = self._count_below(end_offset)
        if keep < len(self.epochs):
            self._replace(self.epochs[:keep], self.start_offsets[:keep])

    def forget_from(self, end_offset: int) -> None:
        """The same in memory only.

        The file keeps them until `write`: a recovery that is killed must not leave less than the
        next one needs.
        """
        keep = self._count_below(end_offset)
        if keep < len(self.epochs):
            self._set(self.epochs[:keep], self.start_offsets[:keep])
            self.latest_written = _ANOTHER_LIST

    def _count_below(self, end_offset: int) -> int:
        keep = len(self.epochs)
        while keep and self.start_offsets[keep - 1] >= end_offset:
            keep -= 1
        return keep

    def write(self) -> None:
        """Writes changes made in memory only."""
        if self.latest_written != self.latest:
            self._replace(self.epochs, self.start_offsets)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops epochs that end at or before the new log start.

        The one that spans it starts there.
        """
        slot = bisect_right(self.start_offsets, start_offset) - 1
        if slot < 0 or (slot == 0 and self.start_offsets[0] == start_offset):
            return
        self._replace(self.epochs[slot:], [start_offset, *self.start_offsets[slot + 1 :]])

    def _replace(self, epochs: list[int], start_offsets: list[int]) -> None:
        """Writes, then changes: if the disk refuses, memory and file stay unchanged."""
        pairs = list(zip(epochs, start_offsets, strict=True))
        write_pairs(self._files, self._path, pairs, sync=False)
        self._dirty = True
        self._set(epochs, start_offsets)
        self.latest_written = self.latest

    def _set(self, epochs: list[int], start_offsets: list[int]) -> None:
        self.epochs = epochs
        self.start_offsets = start_offsets
        self.latest = epochs[-1] if epochs else NO_LEADER_EPOCH

    def fsync(self) -> bool:
        """Makes the file durable if it changed. True if the folder needs a sync too.

        Runs in the thread of the log's fsync. It reopens the file without writing it, because the
        loop may replace it at the same time.
        """
        if not self._dirty:
            return False
        self._dirty = False
        try:
            file = self._files.open(self._path)
            try:
                file.fsync()
            finally:
                file.close()
        except OSError:
            self._dirty = True
            raise
        return True
