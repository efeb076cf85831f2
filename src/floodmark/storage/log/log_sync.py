"""Tracks and extends the durable part of a log.

Owned by partition_log.py. `fsync` and `sync_names` run in threads while the loop appends, rolls and
removes. They share the locks here, and the loop waits for them only in a truncation.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from floodmark.storage.errors import LogDirFailure, StorageError, TooManyFiles, storage_failure
from floodmark.storage.files import Files
from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.storage.log.log_segments import LogSegments
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import LogConfig


class LogSync:
    """Everything below `recovery_point` is on disk."""

    __slots__ = (
        "_directory",
        "_files",
        "_finished",
        "_guard",
        "_in_use",
        "_leader_epochs",
        "_name_dirty",
        "_names_changed",
        "_names_synced",
        "_segments",
        "_truncations",
        "is_closed",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._leader_epochs = leader_epochs
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.is_closed = False
        # Guards the recovery point against a truncation while fsync runs in its thread.
        self._guard = threading.Lock()
        self._truncations = 0
        # Held while a thread uses files, so that none is closed or renamed meanwhile.
        self._in_use = threading.Lock()
        # How often segment names were created in the folder, and how many of those are durable.
        self._names_changed = 1
        self._names_synced = 0
        # Rolled segments whose indexes are not synced: the recovery point will pass them, and
        # recovery then trusts them. Changed in place and in single steps, because the loop adds
        # while a thread removes.
        self._finished: list[Segment] = []
        # The folder's own name is durable only once its parent is synced.
        self._name_dirty = True

    # -- called by the loop

    def segment_added(self) -> None:
        self._names_changed += 1

    def segment_finished(self, segment: Segment) -> None:
        self._finished.append(segment)

    def require_names(self) -> None:
        """Before a roll: an earlier segment's name must not be lost while the new one's survives.

        The broker calls `sync_names` in time, except for logs that roll every second.
        """
        if self._names_synced < self._names_changed:
            self._sync_names(self._names_changed)

    def close_files(self) -> None:
        """Closes now, or when the thread using them is done: the loop does not wait for a sync."""
        self.is_closed = True
        if self._in_use.acquire(blocking=False):
            try:
                for segment in self._segments.all:
                    segment.close_file()
            finally:
                self._in_use.release()

    def moved(self, directory: Path) -> None:
        """The folder has been renamed, which is not durable yet."""
        self._directory = directory
        self._name_dirty = True

    # -- truncation

    @property
    def truncations(self) -> int:
        """Changes with each truncation: earlier reads may no longer be in the log."""
        return self._truncations

    @contextmanager
    def truncating(self) -> Iterator[None]:
        """No sync runs within this."""
        with self.using_files(), self._guard:
            yield

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation: nothing from this offset's segment on counts as synced."""
        with self._guard:
            self._truncations += 1
            slot = self._segments.slot_of(offset)
            # The log may also restart before its first segment, inside a batch.
            self.recovery_point = min(
                self.recovery_point, self._segments.base_offsets[slot], offset
            )

    def truncated(self, log_end_offset: int) -> None:
        """Within `truncating`, once the batches are cut."""
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self._finished[:] = [old for old in self._finished if old in self._segments.all[:-1]]

    # -- in threads

    @contextmanager
    def using_files(self) -> Iterator[None]:
        """For a thread: nobody else closes or renames a file within this."""
        try:
            with self._in_use:
                yield
        finally:
            if self.is_closed:
                self.close_files()

    def forget(self, segments: list[Segment]) -> None:
        """Within `using_files`: these have left the log."""
        for segment in segments:
            with suppress(ValueError):
                self._finished.remove(segment)

    def fsync(self, log_end: Callable[[], int], now_ms: int | None) -> int:
        """Makes everything written before this call durable. Returns the durable log end."""
        with self.using_files():
            # In this order: a truncation announced in between keeps the point where it is.
            truncations = self._truncations
            log_end_offset = log_end()
            if self.is_closed:
                return log_end_offset
            finished = self._finished.copy()
            del self._finished[: len(finished)]
            try:
                self._sync_all(finished)
            except OSError as error:
                if self.is_closed:
                    # The folder has been renamed meanwhile, for removal.
                    return log_end_offset
                self._finished[:0] = finished
                raise self._failed(error) from error
            with self._guard:
                if truncations == self._truncations and log_end_offset > self.recovery_point:
                    self.recovery_point = log_end_offset
            if now_ms is not None:
                self.last_flush_ms = now_ms
            return log_end_offset

    def _sync_all(self, finished: list[Segment]) -> None:
        names_changed = self._names_changed
        # A copy, because the loop may roll meanwhile.
        segments = list(self._segments.all)
        base_offsets = [segment.base_offset for segment in segments]
        first = max(bisect_right(base_offsets, self.recovery_point) - 1, 0)
        for segment in segments[first:]:
            segment.fsync()
        for segment in finished:
            segment.fsync_indexes()
        if self._leader_epochs.fsync() or self._names_synced < names_changed:
            self._sync_names(names_changed)
        if self._name_dirty:
            self._files.fsync_dir(self._directory.parent)
            self._name_dirty = False

    def sync_names(self) -> None:
        """Makes the names of all segments durable."""
        with self.using_files():
            try:
                if not self.is_closed:
                    self._sync_names(self._names_changed)
            except OSError as error:
                if not self.is_closed:
                    raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageError:
        failure = storage_failure(error, self._directory.parent, "fsync")
        if error.filename is not None or isinstance(failure, TooManyFiles):
            # Something could not be opened: no fsync has failed.
            return failure
        # After a failed fsync the kernel may have dropped the pages. Nothing in this folder is safe
        # until it is recovered from disk.
        return LogDirFailure(self._directory.parent, f"fsync: {error}")

    def _sync_names(self, names_changed: int) -> None:
        self._files.fsync_dir(self._directory)
        self._names_synced = max(self._names_synced, names_changed)

    # -- when

    def flush_due(self, log_end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Whether flush.messages, flush.ms or a finished segment requires an fsync."""
        pending = log_end_offset - self.recovery_point
        return pending > 0 and (
            pending >= config.flush_messages
            or now_ms - self.last_flush_ms >= config.flush_ms
            or self.recovery_point < self._segments.active.base_offset
        )

    def names_due(self, config: LogConfig, now_ms: int) -> bool:
        """Whether the active segment may soon be full and its name is not durable yet.

        The next roll would have to wait for that.
        """
        if self._names_synced == self._names_changed:
            return False
        active = self._segments.active
        return (
            active.size_bytes > config.segment_bytes // 4
            or now_ms - active.created_ms > config.segment_ms // 2
        )
