"""All logs of a broker in its log folders.

Called by the broker: it locks and loads the folders, makes and deletes logs, writes the checkpoints
and takes a folder offline that fails. Methods that say so block on the disk and belong into a
thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from floodmark.storage import checkpoints
from floodmark.storage.checkpoints import CorruptCheckpoint, MetaProperties
from floodmark.storage.errors import (
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
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)


class Cut(NamedTuple):
    """A truncation: to this offset, or of all, to go on at this offset."""

    log: PartitionLog
    offset: int
    keeps_start: bool = True


class LogManager:
    """The logs of one broker. Use: open_dirs, found_partitions, load, then serve, then close."""

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
        self._checkpoint_lock = threading.Lock()
        self.topic_ids: dict[TopicPartition, UUID] = {}
        self.dirs: dict[Path, LogDir] = {}
        self.offline_dirs: dict[Path, str] = {}
        # Logs that were given up, with their folders: those get no mark of a clean stop.
        self._failed: dict[TopicPartition, Path] = {}
        self.moves = LogMoves(files)
        # Where somebody wants partitions that are not here yet.
        self.preferred_dirs: dict[TopicPartition, Path] = {}
        # As of the last run; replication starts from these.
        self.high_watermarks: dict[TopicPartition, int] = {}

    # -- starting (blocks)

    def open_dirs(self) -> None:
        """Make, lock and read the log folders; a failing one goes offline, a locked one is an
        error."""
        for path in self._paths:
            try:
                self.dirs[path] = open_log_dir(self._files, path)
                self.high_watermarks |= self.dirs[path].checkpoints[checkpoints.HIGH_WATERMARKS]
            except (OSError, CorruptCheckpoint) as error:
                self._mark_offline(path, str(error))
        if not self.dirs:
            reasons = "; ".join(f"{path}: {why}" for path, why in self.offline_dirs.items())
            raise StorageError(f"none of the log folders can be used: {reasons}")

    @property
    def was_clean(self) -> bool:
        """Whether every folder was left by a clean stop."""
        return all(log_dir.clean for log_dir in self.dirs.values())

    @property
    def unbroken_since(self) -> int:
        """The broker epoch since which every stop was a clean one; -1 after another."""
        if not self.was_clean:
            return -1
        return min((log_dir.broker_epoch for log_dir in self.dirs.values()), default=-1)

    def write_meta_properties(self, properties: Mapping[Path, MetaProperties]) -> None:
        for path, meta in properties.items():
            checkpoints.write_meta_properties(self._files, path, meta)
            self.dirs[path].meta = meta

    def found_partitions(self) -> list[FoundPartition]:
        """Every partition's folder; what earlier deletions left behind is removed on the way."""
        found: list[FoundPartition] = []
        try:
            self.moves.complete(list(self.dirs), all_online=not self.offline_dirs)
        except OSError as error:
            # Each folder is looked at again below, and goes offline if it has to.
            logger.error("interrupted moves between log folders are left alone: %s", error)
        for path in list(self.dirs):
            try:
                found += partitions_in(self._files, path)
            except (OSError, CorruptCheckpoint) as error:
                self._mark_offline(path, str(error))
        return found

    def set_aside(self, strays: Sequence[FoundPartition]) -> None:
        """Rename folders of topics that are no more: the broker was killed between the deletion and
        the renaming of its folders. Kafka's suffix, and as with Kafka nobody removes them."""
        for item in strays:
            target = item.log_dir / name_aside(item.folder.name, STRAY_SUFFIX)
            try:
                self._files.rename(item.folder, target)
            except OSError as error:
                self._mark_offline(item.log_dir, f"{item.folder.name}: {error}")
            else:
                self._is_gone((item.topic, item.partition), self.dirs[item.log_dir])
                logger.warning(
                    "%s belonged to a topic that has been deleted: it is now %s, to be removed "
                    "when nobody misses it",
                    item.folder,
                    target.name,
                )

    def load(
        self,
        found: Sequence[FoundPartition],
        config_for: Callable[[str], LogConfig],
        now_ms: int,
    ) -> None:
        """Open the logs that were found, several at a time, and recover those of unclean
        folders."""
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
            # Another log of the folder has shown that the folder cannot be used.
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
        """A log that an earlier run has left in this folder."""
        recovery_point = log_dir.offset_in(checkpoints.RECOVERY_POINTS, key)
        return PartitionLog.open(
            self._files,
            log_dir.folder_of(key),
            config,
            now_ms=now_ms,
            # A clean stop lists all logs that were open. One that was not may never have been
            # recovered, and one that has failed since was not closed as it should be.
            clean=log_dir.clean and recovery_point is not None and key not in self._failed,
            recovery_point=recovery_point or 0,
            log_start_offset=log_dir.offset_in(checkpoints.LOG_START_OFFSETS, key) or 0,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    # -- serving

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def is_usable(self, log: PartitionLog) -> bool:
        """Whether the folder that a log lies in is online."""
        return log.directory.parent in self.dirs

    def space(self, log_dir: Path) -> tuple[int, int]:
        """The size of the folder's disk, and what is left of it; -1 for what cannot be known."""
        try:
            return self._files.space(log_dir)
        except OSError:
            return -1, -1

    def logs(self) -> list[PartitionLog]:
        return list(self._logs.values())

    def expire_producers_after(self, expiration_ms: int) -> None:
        """How long a silent producer is known, in the logs that are open and in those to come."""
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
        """The log of a partition, opened where it lies if the start could not; a new one goes to
        the folder with the fewest logs.

        A partition that is not new may have its records in a folder that is offline: it is made
        again only when all folders can be looked at.
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
                    f"{topic}-{partition} is not in the log folders that can be used; it may be in "
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

        What an earlier topic of the name has left there is no log of a new topic.
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
                    # Made in part: the disk was full, or no more files could be opened.
                    self._files.remove_tree(directory)
                    continue
                logger.warning("%s is left over from a deleted topic, and goes", directory)
                target = directory.with_name(name_aside(directory.name, DELETE_SUFFIX))
                self._files.rename(directory, target)
            except OSError as error:
                raise storage_failure(error, log_dir.path, directory.name) from error
        return None

    def _create(
        self, key: TopicPartition, config: LogConfig, now_ms: int, log_dir: LogDir
    ) -> PartitionLog:
        self._forget_offsets(key, log_dir)
        return PartitionLog.open(
            self._files,
            log_dir.folder_of(key),
            config,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    def _forget_offsets(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Before a new log gets the name of an earlier one: after a crash its records would be
        taken for deleted, because the earlier one began above them."""
        self._is_gone(key, log_dir)
        for name in log_dir.names(key):
            self._checkpoint(name, only_dir=log_dir.path)
        with self._checkpoint_lock:
            log_dir.gone.discard(key)

    def _is_gone(self, key: TopicPartition, log_dir: LogDir) -> None:
        """What the checkpoints say about this log is not true any more."""
        self.high_watermarks.pop(key, None)
        with self._checkpoint_lock:
            log_dir.gone.add(key)

    def _write_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        try:
            # Not synced: the id is in the metadata store, and an empty file counts as none.
            checkpoints.write_topic_id(self._files, log.directory, topic_id, sync=False)
        except OSError as error:
            raise storage_failure(error, log.directory.parent, log.directory.name) from error

    def _dir_for_new(self, key: TopicPartition) -> LogDir:
        preferred = self.preferred_dirs.pop(key, None)
        wanted = None if preferred is None else self.dirs.get(preferred)
        return wanted or self._emptiest_dir()

    def _emptiest_dir(self) -> LogDir:
        if not self.dirs:
            raise StorageError("all log folders are offline")
        return min(self.dirs.values(), key=lambda log_dir: log_dir.log_count)

    def delete(self, topic: str, partition: int) -> Path:
        """Take a log away (blocks); the renamed folder returned is for `remove_folder`, later.

        When this returns nobody is at work in the old folder any more: a new topic may have its
        name.
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
        self._is_gone((topic, partition), log_dir)
        try:
            return log.delete()
        finally:
            log.wait_until_unused()

    def begin_move(self, topic: str, partition: int, target: Path, now_ms: int) -> PartitionLog:
        """An empty copy of a log in another folder (blocks)."""
        current = self._logs.get((topic, partition))
        if current is None or target not in self.dirs:
            raise StorageError(f"{topic}-{partition} cannot move to {target}: one is offline")
        return self.moves.begin(current, target, self.topic_ids.get((topic, partition)), now_ms)

    def finish_move(self, future: PartitionLog) -> Callable[[], None]:
        """The copy takes the place of the log, from now on; returns what removes the old one, for
        later and in a thread. On the loop: see `LogMoves.finish`."""
        key = (future.topic, future.partition)
        current = self._logs[key]
        source, target = self.dirs[current.directory.parent], self.dirs[future.directory.parent]
        left = self.moves.finish(current, future)
        self._logs[key] = future
        source.log_count -= 1
        target.log_count += 1
        with self._checkpoint_lock:
            source.gone.add(key)
            target.gone.discard(key)

        def remove() -> None:
            current.sync.close_files()
            self.remove_folder(left)

        return remove

    def remove_folder(self, path: Path) -> None:
        """Remove a deleted log's folder (blocks)."""
        if self._files.exists(path):
            self._files.remove_tree(path)

    def retire(self, log: PartitionLog, segments: list[Segment]) -> RetiredSegments:
        """Rename the files of segments that were detached from a log (blocks).

        Names may reach the disk in any order: after a power loss an old segment may be left, and
        those after it gone. A recovery point on disk that is behind them all says that this is the
        work of retention, and not a hole that the loss has torn.
        """
        log_dir = self.dirs.get(log.directory.parent)
        if log_dir is not None:
            key = (log.topic, log.partition)
            written = log_dir.offset_in(checkpoints.RECOVERY_POINTS, key) or 0
            if written < log.segments[0].base_offset <= log.recovery_point:
                self.checkpoint_recovery_points(log_dir.path)
        return log.retire(segments)

    def truncate_to(self, log: PartitionLog, offset: int, now_ms: int) -> None:
        """Truncate a log that has diverged from its leader's (blocks)."""
        self._truncate_one(Cut(log, offset), now_ms)

    def truncate_fully_and_start_at(self, log: PartitionLog, offset: int, now_ms: int) -> None:
        """Empty a log and go on at this offset (blocks)."""
        self._truncate_one(Cut(log, offset, keeps_start=False), now_ms)

    def _truncate_one(self, cut: Cut, now_ms: int) -> None:
        (problem,) = self.truncate([cut], now_ms)
        if problem is not None:
            raise problem

    def truncate(self, cuts: Sequence[Cut], now_ms: int) -> list[StorageError | None]:
        """Truncate several logs (blocks); what went wrong with each."""
        problems = self._lower_recovery_points(cuts)
        return [problems.get(cut.log.directory.parent) or _truncate(cut, now_ms) for cut in cuts]

    def _lower_recovery_points(self, cuts: Sequence[Cut]) -> dict[Path, StorageError]:
        """On disk, before anything is cut: after a power loss in the middle recovery must look at
        all that the truncations touch. Once per folder, however many logs of it are cut."""
        folders: dict[Path, None] = {}
        for log, offset, keeps_start in cuts:
            if not keeps_start or offset < log.log_end_offset:
                log.lower_recovery_point(offset if keeps_start else 0)
                folders[log.directory.parent] = None
        problems: dict[Path, StorageError] = {}
        for folder in folders:
            try:
                self.checkpoint_recovery_points(folder)
            except StorageError as problem:
                problems[folder] = problem
        return problems

    # -- checkpoints (block)

    def checkpoint_recovery_points(self, only_dir: Path | None = None) -> None:
        self._checkpoint(checkpoints.RECOVERY_POINTS, only_dir=only_dir)

    def checkpoint_log_start_offsets(self, only_dir: Path | None = None) -> None:
        """Also those that the first segment's name tells: the files of older segments may still be
        there under their old names, and would bring back what DeleteRecords has removed."""
        self._checkpoint(checkpoints.LOG_START_OFFSETS, only_dir=only_dir)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self.high_watermarks.update(high_watermarks)
        self._checkpoint(checkpoints.HIGH_WATERMARKS)

    def _checkpoint(self, name: str, *, only_dir: Path | None = None) -> None:
        with self._checkpoint_lock:
            offsets: dict[Path, dict[TopicPartition, int]] = {
                path: {} for path in list(self.dirs) if only_dir in (None, path)
            }
            open_logs = dict(self._logs)
            for key, log in open_logs.items():
                value = self._value_in(name, log)
                by_dir = offsets.get(log.directory.parent)
                if by_dir is not None and value is not None:
                    by_dir[key] = value
            problems: list[StorageError] = []
            for path, by_partition in offsets.items():
                log_dir = self.dirs.get(path)
                try:
                    if log_dir is not None:
                        log_dir.keep_lock(self._files)
                        log_dir.write_checkpoint(self._files, name, by_partition, open_logs)
                except StorageError as problem:
                    problems.append(problem)
                except OSError as error:
                    problems.append(storage_failure(error, path, name))
            if problems:
                # The others have theirs; that a folder is lost matters most.
                raise max(problems, key=lambda one: isinstance(one, LogDirFailure))

    def _value_in(self, name: str, log: PartitionLog) -> int | None:
        if name == checkpoints.RECOVERY_POINTS:
            return log.recovery_point
        if name == checkpoints.LOG_START_OFFSETS:
            return log.log_start_offset or None
        return self.high_watermarks.get((log.topic, log.partition))

    # -- failing and stopping

    def fail_dir(self, path: Path, reason: str) -> list[TopicPartition]:
        """Take a log folder offline; the partitions that went with it."""
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
        """Take one log offline, the folder is sound; the next start checks it."""
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
        """Close all logs (blocks). After a clean close the next start needs no recovery: says
        whether this was one, for all folders.

        A disk that refuses the last writes, perhaps because it is full, does not stop the stop: its
        folder gets no mark, and the next start checks its logs.
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
                # A start that came to nothing, perhaps because its port was taken.
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


def _truncate(cut: Cut, now_ms: int) -> StorageError | None:
    log, offset, keeps_start = cut
    try:
        if keeps_start:
            log.truncate_to(offset, now_ms)
        else:
            log.truncate_fully_and_start_at(offset, now_ms)
    except StorageError as problem:
        return problem
    return None
