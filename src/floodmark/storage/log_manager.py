"""All logs of a broker, in its log folders.

Called by the broker. It locks and loads the folders, creates and deletes logs, writes the
checkpoints and takes failing folders offline. Methods marked as blocking must run in a thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from floodmark.storage import checkpoints
from floodmark.storage.checkpoints import CorruptCheckpoint, MetaProperties
from floodmark.storage.errors import (
    DiskFull,
    InconsistentTopicId,
    LogDirFailure,
    StorageError,
    storage_failure,
)
from floodmark.storage.files import Files
from floodmark.storage.folder_names import DELETE_SUFFIX, STRAY_SUFFIX, name_aside
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.retired_segments import RetiredSegments
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_dir import (
    FoundPartition,
    LogDir,
    has_records,
    open_log_dir,
    partitions_in,
)
from floodmark.storage.log_moves import LogMoves
from floodmark.storage.offset_checkpoints import OffsetCheckpoints
from floodmark.storage.truncations import Cut, truncate_logs
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

MOST_PREFERRED_DIRS = 10_000
"""More than a reassignment names at a time, and less than 5 MB."""


class LogManager:
    """One broker's logs. Use: open_dirs, found_partitions, load, then serve, then close."""

    def __init__(
        self,
        files: Files,
        log_dirs: Sequence[Path],
        *,
        producer_expiration_ms: int = 86_400_000,
        recovery_threads: int = 2,
    ) -> None:
        self._files = files
        self._paths = list(dict.fromkeys(log_dirs))
        self._producer_expiration_ms = producer_expiration_ms
        self.recovery_threads = recovery_threads
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._logs_opened = False
        self.topic_ids: dict[TopicPartition, UUID] = {}
        self.dirs: dict[Path, LogDir] = {}
        self.offline_dirs: dict[Path, str] = {}
        # Failed logs with their folders, which get no clean-shutdown marker.
        self._failed: dict[TopicPartition, Path] = {}
        self.moves = LogMoves(files)
        # Requested folders of partitions that are not here yet, the last request last.
        self.preferred_dirs: dict[TopicPartition, Path] = {}
        self._checkpoints = OffsetCheckpoints(files, self.dirs, self._logs)

    @property
    def high_watermarks(self) -> dict[TopicPartition, int]:
        """From the last run; replication starts from these."""
        return self._checkpoints.high_watermarks

    # -- starting (blocks)

    def open_dirs(self) -> None:
        """Creates, locks and reads the log folders.

        A failing one goes offline; a locked one is an error.
        """
        for path in self._paths:
            try:
                self.dirs[path] = open_log_dir(self._files, path)
                self.high_watermarks.update(
                    self.dirs[path].checkpoints[checkpoints.HIGH_WATERMARKS]
                )
            except (OSError, CorruptCheckpoint) as error:
                self._mark_offline(path, str(error))
        if not self.dirs:
            reasons = "; ".join(f"{path}: {why}" for path, why in self.offline_dirs.items())
            raise StorageError(f"no log folder is usable: {reasons}")

    @property
    def was_clean(self) -> bool:
        """Whether every folder was shut down cleanly."""
        return all(log_dir.clean for log_dir in self.dirs.values())

    @property
    def unbroken_since(self) -> int:
        """The broker epoch since which every shutdown was clean; -1 if the last was not."""
        if not self.was_clean:
            return -1
        return min((log_dir.broker_epoch for log_dir in self.dirs.values()), default=-1)

    def write_meta_properties(self, properties: Mapping[Path, MetaProperties]) -> None:
        for path, meta in properties.items():
            checkpoints.write_meta_properties(self._files, path, meta)
            self.dirs[path].meta = meta

    def found_partitions(self) -> list[FoundPartition]:
        """Every partition's folder. Removes leftovers of earlier deletions on the way."""
        found: list[FoundPartition] = []
        try:
            self.moves.complete(list(self.dirs), all_online=not self.offline_dirs)
        except OSError as error:
            # Each folder is checked again below, and goes offline if necessary.
            logger.error("leaving interrupted moves between log folders alone: %s", error)
        for path in list(self.dirs):
            try:
                found += partitions_in(self._files, path)
            except (OSError, CorruptCheckpoint) as error:
                self._mark_offline(path, str(error))
        return found

    def set_aside(self, strays: Sequence[FoundPartition]) -> None:
        """Renames folders of deleted topics, left by a broker that was killed before it could.

        Uses Kafka's suffix, and as in Kafka, nobody removes them.
        """
        for item in strays:
            target = item.log_dir / name_aside(item.folder.name, STRAY_SUFFIX)
            try:
                self._files.rename(item.folder, target)
            except OSError as error:
                self._mark_offline(item.log_dir, f"{item.folder.name}: {error}")
            else:
                self._checkpoints.is_gone((item.topic, item.partition), self.dirs[item.log_dir])
                logger.warning(
                    "%s belonged to a deleted topic: renamed to %s, remove it when you no longer "
                    "need it",
                    item.folder,
                    target.name,
                )

    def load(
        self,
        found: Sequence[FoundPartition],
        config_for: Callable[[str], LogConfig],
        now_ms: int,
    ) -> None:
        """Opens the found logs, several at a time, and recovers those of unclean folders."""
        self._logs_opened = True
        with ThreadPoolExecutor(self.recovery_threads, "floodmark-load") as pool:
            jobs = [(item, pool.submit(self._load, item, config_for, now_ms)) for item in found]
            for item, job in jobs:
                self._take_loaded(item, job, now_ms)

    def _take_loaded(
        self, item: FoundPartition, job: Future[PartitionLog | None], now_ms: int
    ) -> None:
        key = (item.topic, item.partition)
        try:
            log = job.result()
        except (LogDirFailure, CorruptCheckpoint) as error:
            self.fail_dir(item.log_dir, str(error))
            return
        except StorageError as error:
            logger.error("%s-%d stays offline: %s", item.topic, item.partition, error)
            return
        if log is None:
            return
        if item.log_dir not in self.dirs:
            # Another log in the folder has shown that the folder is unusable.
            log.close(now_ms, clean=False)
            return
        if key in self._logs:
            raise StorageError(
                f"{item.topic}-{item.partition} is in two log folders: "
                f"{self._logs[key].directory.parent} and {item.log_dir}; move one away"
            )
        self._logs[key] = log
        self.dirs[item.log_dir].log_count += 1
        if item.topic_id is not None:
            self.topic_ids[key] = item.topic_id

    def _load(
        self, item: FoundPartition, config_for: Callable[[str], LogConfig], now_ms: int
    ) -> PartitionLog | None:
        log_dir = self.dirs.get(item.log_dir)
        if log_dir is None:
            return None
        return self._open_found(
            (item.topic, item.partition), config_for(item.topic), now_ms, log_dir
        )

    def _open_found(
        self, key: TopicPartition, config: LogConfig, now_ms: int, log_dir: LogDir
    ) -> PartitionLog:
        """Opens a log that an earlier run has left in this folder."""
        recovery_point = log_dir.offset_in(checkpoints.RECOVERY_POINTS, key)
        return PartitionLog.open(
            self._files,
            log_dir.folder_of(key),
            config,
            now_ms=now_ms,
            # A clean shutdown lists all open logs. A log that was not open may never have been
            # recovered, and one that has failed since was not closed properly.
            clean=log_dir.clean and recovery_point is not None and key not in self._failed,
            recovery_point=recovery_point or 0,
            log_start_offset=log_dir.offset_in(checkpoints.LOG_START_OFFSETS, key) or 0,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    # -- serving

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def is_usable(self, log: PartitionLog) -> bool:
        """Whether a log's folder is online."""
        return log.directory.parent in self.dirs

    def space(self, log_dir: Path) -> tuple[int, int]:
        """The size of the folder's disk and its free space; -1 if unknown."""
        try:
            return self._files.space(log_dir)
        except OSError:
            return -1, -1

    def logs(self) -> list[PartitionLog]:
        return list(self._logs.values())

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Sets how long a silent producer is remembered, in current and future logs."""
        self._producer_expiration_ms = expiration_ms
        for log in self.logs():
            log.producers.expiration_ms = expiration_ms

    def get_or_create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        config: LogConfig,
        *,
        now_ms: int,
        is_new: bool = True,
    ) -> PartitionLog:
        """A partition's log, opened in place if the start could not open it.

        A new log goes to the folder with the fewest logs.

        A partition that is not new may have its records in an offline folder, so it is created
        again only if all folders are available.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is None:
            self._logs_opened = True
            log_dir = self._dir_of(key, topic_id if is_new else None)
            if log_dir is not None:
                log = self._open_found(key, config, now_ms, log_dir)
            elif self.offline_dirs and not is_new:
                raise StorageError(
                    f"{topic}-{partition} is not in the usable log folders; it may be in "
                    f"{', '.join(map(str, self.offline_dirs))}"
                )
            else:
                if not is_new:
                    for known in self.dirs.values():
                        known.tell_of_loss(key)
                log_dir = self._dir_for_new(key)
                log = self._create(key, config, now_ms, log_dir)
            self._logs[key] = log
            log_dir.log_count += 1
        known_id = self.topic_ids.get(key)
        if topic_id is not None and known_id != topic_id:
            if known_id is not None:
                raise InconsistentTopicId(
                    f"{topic}-{partition} belongs to topic id {known_id}, not to {topic_id}"
                )
            self._write_topic_id(log, topic_id)
            self.topic_ids[key] = topic_id
        return log

    def _dir_of(self, key: TopicPartition, new_topic_id: UUID | None) -> LogDir | None:
        """Where a log lies that is not open: the start could not open it, or was not asked to.

        Leftovers of an earlier topic with that name do not count for a new topic.
        """
        for log_dir in list(self.dirs.values()):
            directory = log_dir.folder_of(key)
            try:
                if not self._files.exists(directory):
                    continue
                topic_id = checkpoints.read_topic_id(self._files, directory)
                if new_topic_id is None or topic_id == new_topic_id:
                    if topic_id is not None:
                        self.topic_ids[key] = topic_id
                    return log_dir
                if topic_id is None and not has_records(self._files, directory):
                    # Partly created: the disk was full, or no more files could be opened.
                    self._files.remove_tree(directory)
                    continue
                logger.warning("removing %s, left over from a deleted topic", directory)
                target = directory.with_name(name_aside(directory.name, DELETE_SUFFIX))
                self._files.rename(directory, target)
            except OSError as error:
                raise storage_failure(error, log_dir.path, directory.name) from error
        return None

    def _create(
        self, key: TopicPartition, config: LogConfig, now_ms: int, log_dir: LogDir
    ) -> PartitionLog:
        self._checkpoints.forget(key, log_dir)
        return PartitionLog.open(
            self._files,
            log_dir.folder_of(key),
            config,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    def _write_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        try:
            # Not synced: the id is in the metadata store, and an empty file counts as missing.
            checkpoints.write_topic_id(self._files, log.directory, topic_id, sync=False)
        except OSError as error:
            raise storage_failure(error, log.directory.parent, log.directory.name) from error

    def prefer_dir(self, key: TopicPartition, folder: Path) -> None:
        """Remembers where to create a partition that is not here yet. Forgets the oldest request
        beyond the limit, because clients may name what will never be here."""
        self.preferred_dirs.pop(key, None)
        self.preferred_dirs[key] = folder
        if len(self.preferred_dirs) > MOST_PREFERRED_DIRS:
            del self.preferred_dirs[next(iter(self.preferred_dirs))]

    def _dir_for_new(self, key: TopicPartition) -> LogDir:
        preferred = self.preferred_dirs.pop(key, None)
        wanted = None if preferred is None else self.dirs.get(preferred)
        return wanted or self._emptiest_dir()

    def _emptiest_dir(self) -> LogDir:
        if not self.dirs:
            raise StorageError("all log folders are offline")
        return min(self.dirs.values(), key=lambda log_dir: log_dir.log_count)

    def delete(self, topic: str, partition: int) -> Path:
        """Removes a log (blocks). Returns the renamed folder for a later `remove_folder`.

        When this returns, nothing uses the old folder any more: a new topic may take its name.
        """
        log = self._logs.pop((topic, partition), None)
        log_dir = None if log is None else self.dirs.get(log.directory.parent)
        if log is None or log_dir is None:
            raise StorageError(f"the log folder of {topic}-{partition} is offline")
        log_dir.log_count -= 1
        future = self.moves.futures.get((topic, partition))
        if future is not None:
            self.moves.abandon(future)
        self.topic_ids.pop((topic, partition), None)
        self._checkpoints.is_gone((topic, partition), log_dir)
        try:
            return log.delete()
        finally:
            log.wait_until_unused()

    def begin_move(self, topic: str, partition: int, target: Path, now_ms: int) -> PartitionLog:
        """Creates an empty copy of a log in another folder (blocks)."""
        current = self._logs.get((topic, partition))
        if current is None or target not in self.dirs:
            raise StorageError(f"{topic}-{partition} cannot move to {target}: one is offline")
        return self.moves.begin(current, target, self.topic_ids.get((topic, partition)), now_ms)

    def finish_move(self, future: PartitionLog) -> Callable[[], None]:
        """The copy replaces the log from now on.

        Returns a function that removes the old one later, in a thread. Runs on the loop: see
        `LogMoves.finish`.
        """
        key = (future.topic, future.partition)
        current = self._logs[key]
        source, target = self.dirs[current.directory.parent], self.dirs[future.directory.parent]
        left = self.moves.finish(current, future)
        self._logs[key] = future
        source.log_count -= 1
        target.log_count += 1
        self._checkpoints.is_moved(key, source, target)

        def remove() -> None:
            current.sync.close_files()
            self.remove_folder(left)

        return remove

    def remove_folder(self, path: Path) -> None:
        """Remove a deleted log's folder (blocks)."""
        if self._files.exists(path):
            self._files.remove_tree(path)

    def retire(self, log: PartitionLog, segments: list[Segment]) -> RetiredSegments:
        """Renames the files of segments detached from a log (blocks).

        Renames may reach the disk in any order: after a power loss an old segment may remain, and
        later ones be gone. A recovery point on disk past all of them shows that retention did this,
        and that it is not a gap caused by the power loss. A log start on disk past all of them
        hides what remains: the markers that say what was aborted may be gone.
        """
        log_dir = self.dirs.get(log.directory.parent)
        if log_dir is not None:
            key = (log.topic, log.partition)
            written = log_dir.offset_in(checkpoints.RECOVERY_POINTS, key) or 0
            if written < log.segments[0].base_offset <= log.recovery_point:
                self.checkpoint_recovery_points(log_dir.path)
            start = log_dir.offset_in(checkpoints.LOG_START_OFFSETS, key) or 0
            if start < log.log_start_offset:
                # A full disk needs the removal more.
                with contextlib.suppress(DiskFull):
                    self.checkpoint_log_start_offsets(log_dir.path)
        return log.retire(segments)

    def truncate_to(self, log: PartitionLog, offset: int, now_ms: int) -> None:
        """Truncates a log that has diverged from its leader's (blocks)."""
        self._truncate_one(Cut(log, offset), now_ms)

    def truncate_fully_and_start_at(self, log: PartitionLog, offset: int, now_ms: int) -> None:
        """Empties a log and continues at this offset (blocks)."""
        self._truncate_one(Cut(log, offset, keeps_start=False), now_ms)

    def _truncate_one(self, cut: Cut, now_ms: int) -> None:
        (problem,) = self.truncate([cut], now_ms)
        if problem is not None:
            raise problem

    def truncate(self, cuts: Sequence[Cut], now_ms: int) -> list[StorageError | None]:
        """Truncates several logs (blocks). Returns the error of each, or None."""
        lowered = self._lower_high_watermarks(cuts)

        def checkpoint(folder: Path) -> None:
            self.checkpoint_recovery_points(folder)
            if folder in lowered:
                self._checkpoints.write(checkpoints.HIGH_WATERMARKS, only_dir=folder)

        starts = [cut.log.log_start_offset for cut in cuts]
        problems = truncate_logs(cuts, checkpoint, now_ms)
        logs = [cut.log for cut in cuts]
        for folder in {
            log.directory.parent
            for log, start in zip(logs, starts, strict=True)
            if log.log_start_offset < start
        }:
            # Otherwise a crash would bring back a start above the end.
            self.checkpoint_log_start_offsets(folder)
        return problems

    def _lower_high_watermarks(self, cuts: Sequence[Cut]) -> set[Path]:
        """Only an unclean election cuts a log below its high watermark.

        After a crash, the old one could lie within a batch of the new leader. Returns the folders
        whose checkpoint must be written.
        """
        lowered: set[Path] = set()
        for log, offset, _ in cuts:
            key = (log.topic, log.partition)
            if self._logs.get(key) is log and self.high_watermarks.get(key, 0) > offset:
                self.high_watermarks[key] = offset
                lowered.add(log.directory.parent)
        return lowered

    # -- checkpoints (block)

    def checkpoint_recovery_points(self, only_dir: Path | None = None) -> None:
        self._checkpoints.write(checkpoints.RECOVERY_POINTS, only_dir=only_dir)

    def checkpoint_log_start_offsets(self, only_dir: Path | None = None) -> None:
        """Includes starts that the first segment's name implies.

        Files of older segments may still exist under their old names, and would bring back what
        DeleteRecords has removed.
        """
        self._checkpoints.write(checkpoints.LOG_START_OFFSETS, only_dir=only_dir)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self.high_watermarks.update(high_watermarks)
        self._checkpoints.write(checkpoints.HIGH_WATERMARKS)

    # -- failing and stopping

    def fail_dir(self, path: Path, reason: str) -> list[TopicPartition]:
        """Takes a log folder offline. Returns its partitions."""
        self._mark_offline(path, reason)
        lost = [key for key, log in list(self._logs.items()) if log.directory.parent == path]
        for key in lost:
            log = self._logs.pop(key, None)
            if log is not None:
                log.close(0, clean=False)
        for key, future in list(self.moves.futures.items()):
            if future.directory.parent == path:
                del self.moves.futures[key]
                future.close(0, clean=False)
        return lost

    def fail_log(self, topic: str, partition: int) -> None:
        """Takes one log offline while its folder is fine. The next start checks it."""
        log = self._logs.pop((topic, partition), None)
        if log is not None:
            self._failed[topic, partition] = log.directory.parent
            log.close(0, clean=False)

    def _mark_offline(self, path: Path, reason: str) -> None:
        log_dir = self.dirs.pop(path, None)
        if log_dir is not None:
            log_dir.lock.close()
        if path not in self.offline_dirs:
            logger.error("log folder %s is offline: %s", path, reason)
            self.offline_dirs[path] = reason

    def close(self, now_ms: int, *, clean: bool = True, broker_epoch: int = -1) -> bool:
        """Closes all logs (blocks).

        After a clean close the next start needs no recovery. Returns whether this was one, for all
        folders.

        A disk that refuses the last writes, perhaps because it is full, does not prevent the
        shutdown. Its folder gets no marker, and the next start checks its logs.
        """
        failed = set(self._failed.values())
        for future in self.moves.futures.values():
            future.close(now_ms, clean=False)
        for log in self.logs():
            try:
                log.close(now_ms, clean=clean)
            except StorageError as error:
                failed.add(log.directory.parent)
                logger.error("%s", error)
        marked = 0
        folders = len(self.dirs) + len(self.offline_dirs)
        for path, log_dir in self.dirs.items():
            if (
                clean
                and path not in failed
                and not log_dir.has_unrecovered(self._files, self._logs)
            ):
                marked += self._mark_clean(path, broker_epoch)
            elif log_dir.clean and not self._logs_opened:
                # The start failed, perhaps because its port was taken.
                self._write_mark(path, log_dir.broker_epoch)
            log_dir.lock.close()
        self._logs.clear()
        self.dirs.clear()
        return marked == folders

    def _mark_clean(self, path: Path, broker_epoch: int) -> bool:
        try:
            self.checkpoint_recovery_points(path)
            self.checkpoint_log_start_offsets(path)
        except StorageError as error:
            logger.error("%s is not marked as stopped cleanly: %s", path, error)
            return False
        return self._write_mark(path, broker_epoch)

    def _write_mark(self, path: Path, broker_epoch: int) -> bool:
        try:
            checkpoints.write_clean_shutdown(self._files, path, broker_epoch)
        except OSError as error:
            logger.error("%s is not marked as stopped cleanly: %s", path, error)
            return False
        return True
