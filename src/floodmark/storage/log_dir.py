"""One of `log.dirs`: its lock, its small files, and the partitions in it.

Called by log_manager.py, which owns the logs. Blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from floodmark.storage import checkpoints
from floodmark.storage.checkpoints import CorruptCheckpoint, MetaProperties
from floodmark.storage.errors import LogDirFailure, LogDirLocked
from floodmark.storage.files import Files, Lock
from floodmark.storage.folder_names import DELETE_SUFFIX, parse_directory_name
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)
LOCK_FILE: Final = ".lock"
# KRaft's own log: left untouched in adopted folders.
_FOREIGN: Final = "__cluster_metadata-0"


@dataclass(slots=True, frozen=True)
class FoundPartition:
    """A partition's folder before it is loaded."""

    topic: str
    partition: int
    topic_id: UUID | None
    log_dir: Path

    @property
    def folder(self) -> Path:
        return self.log_dir / f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class LogDir:
    """An open folder, with the contents of its small files.

    `gone` holds logs that have left the folder but may still be named in `checkpoints`. Those
    entries do not apply to a later log of the same name.
    """

    path: Path
    lock: Lock
    clean: bool
    broker_epoch: int
    meta: MetaProperties | None
    checkpoints: dict[str, dict[TopicPartition, int]]
    gone: set[TopicPartition] = field(default_factory=set)
    log_count: int = 0

    def offset_in(self, name: str, key: TopicPartition) -> int | None:
        """A checkpoint file's entry for a log."""
        return None if key in self.gone else self.checkpoints[name].get(key)

    def names(self, key: TopicPartition) -> list[str]:
        """The checkpoint files that name a log."""
        return [name for name, offsets in self.checkpoints.items() if key in offsets]

    def folder_of(self, key: TopicPartition) -> Path:
        return self.path / f"{key[0]}-{key[1]}"

    def tell_of_loss(self, key: TopicPartition) -> None:
        """Logs what the checkpoints know about a log whose folder is gone."""
        # A recent log may never have been synced, but it has been read.
        names = (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS)
        end_offset = max(self.offset_in(name, key) or 0 for name in names)
        if end_offset:
            logger.error(
                "%s is missing; it held the offsets up to %d or more. The partition starts empty. "
                "To restore its records, stop the broker and bring the folder back",
                self.folder_of(key),
                end_offset,
            )

    def has_unrecovered(self, files: Files, is_open: Container[TopicPartition]) -> bool:
        """Whether a log damaged by the last shutdown could not be opened in this run.

        The disk may have been full. After a clean shutdown nobody would recover it.
        """
        if self.clean:
            return False
        named = self.checkpoints[checkpoints.RECOVERY_POINTS].keys() - self.gone
        return any(key not in is_open and files.exists(self.folder_of(key)) for key in named)

    def keep_lock(self, files: Files) -> None:
        """If the lock file was removed, a second broker could start here.

        Raises LogDirFailure if one has: one of the two must go before they ruin each other's logs.
        """
        if self.lock.is_in_place():
            return
        path = self.path / LOCK_FILE
        lock = None if files.exists(path) else files.lock(path)
        if lock is None:
            raise LogDirFailure(
                self.path,
                f"{LOCK_FILE} was replaced, perhaps by another broker: "
                "stop all brokers that use this folder, and restart one of them",
            )
        logger.warning("%s was removed; recreating it, because a running broker needs it", path)
        self.lock.close()
        self.lock = lock

    def write_checkpoint(
        self,
        files: Files,
        name: str,
        offsets: Mapping[TopicPartition, int],
        is_open: Container[TopicPartition],
    ) -> None:
        """Logs that are not open, perhaps because the disk is full, keep their entries."""
        kept = {
            key: offset
            for key, offset in self.checkpoints[name].items()
            if key not in is_open and key not in self.gone
        }
        written = {**kept, **offsets}
        checkpoints.write_offsets(files, self.path / name, written)
        self.checkpoints[name] = written
        self.gone = {key for key in self.gone if self.names(key)}


def open_log_dir(files: Files, path: Path) -> LogDir:
    """Creates the folder if necessary, locks it and reads its small files. Raises LogDirLocked if
    another broker holds it, OSError or CorruptCheckpoint if it is unusable."""
    if not files.exists(path):
        files.mkdir(path)
        files.fsync_dir(path.parent)
    lock = files.lock(path / LOCK_FILE)
    if lock is None:
        raise LogDirLocked(f"{path} is in use by another broker: stop it or use another folder")
    try:
        meta = checkpoints.read_meta_properties(files, path)
        offsets = {name: _read_offsets(files, path / name) for name in checkpoints.OFFSET_FILES}
        clean, broker_epoch = checkpoints.take_clean_shutdown(files, path)
    except (OSError, CorruptCheckpoint):
        lock.close()
        raise
    return LogDir(path, lock, clean, broker_epoch, meta, offsets)


def _read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Without offsets, all logs are checked and start with their first segment, as in Kafka.

    That is better than serving none of them.
    """
    try:
        return checkpoints.read_offsets(files, path)
    except CorruptCheckpoint as problem:
        logger.error("treating %s as empty: %s", path, problem)
        return {}


def partitions_in(files: Files, path: Path) -> Iterator[FoundPartition]:
    """Every partition's folder. Removes leftovers of earlier deletions on the way."""
    for name in files.listdir(path):
        folder = path / name
        if name == _FOREIGN or not files.is_dir(folder):
            continue
        if name.endswith(DELETE_SUFFIX):
            files.remove_tree(folder)
            continue
        try:
            topic, partition = parse_directory_name(name)
        except ValueError:
            continue
        yield FoundPartition(topic, partition, _read_topic_id(files, folder), path)


def _read_topic_id(files: Files, folder: Path) -> UUID | None:
    """Also None if the file is unreadable: that costs at most this partition."""
    try:
        return checkpoints.read_topic_id(files, folder)
    except (IsADirectoryError, PermissionError) as error:
        logger.error("could not read the topic id of %s: %s", folder.name, error)
        return None


def has_records(files: Files, folder: Path) -> bool:
    """Whether a partition's folder holds anything that could be missed."""
    return any(
        name.endswith(".log") and files.size(folder / name) > 0 for name in files.listdir(folder)
    )
