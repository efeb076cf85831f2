"""One of `log.dirs`: its lock, what its small files say, and which partitions lie in it.

Called by log_manager.py, which owns the logs. Blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from floodmark.storage import checkpoints
from floodmark.storage.checkpoints import CorruptCheckpoint, MetaProperties, TopicPartition
from floodmark.storage.errors import LogDirLocked
from floodmark.storage.files import Files, Lock
from floodmark.storage.folder_names import DELETE_SUFFIX, parse_directory_name

_log = logging.getLogger(__name__)
LOCK_FILE: Final = ".lock"
# KRaft's own log: adopted folders keep it untouched.
_FOREIGN: Final = "__cluster_metadata-0"


@dataclass(slots=True, frozen=True)
class FoundPartition:
    """A partition's folder, before it is loaded."""

    topic: str
    partition: int
    topic_id: UUID | None
    log_dir: Path


@dataclass(slots=True)
class LogDir:
    """A folder that was opened, with what its small files said then."""

    path: Path
    lock: Lock
    clean: bool
    broker_epoch: int
    meta: MetaProperties | None
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    log_count: int = 0


def open_log_dir(files: Files, path: Path) -> LogDir:
    """Make the folder if need be, lock it and read its small files; LogDirLocked when another
    broker has it, OSError or CorruptCheckpoint when it cannot be used."""
    if not files.exists(path):
        files.mkdir(path)
        files.fsync_dir(path.parent)
    lock = files.lock(path / LOCK_FILE)
    if lock is None:
        raise LogDirLocked(f"{path} is in use by another broker: stop it or use another folder")
    try:
        meta = checkpoints.read_meta_properties(files, path)
        recovery_points = _read_offsets(files, path / checkpoints.RECOVERY_POINTS)
        log_starts = _read_offsets(files, path / checkpoints.LOG_START_OFFSETS)
        high_watermarks = _read_offsets(files, path / checkpoints.HIGH_WATERMARKS)
        clean, broker_epoch = checkpoints.take_clean_shutdown(files, path)
    except (OSError, CorruptCheckpoint):
        lock.close()
        raise
    return LogDir(
        path,
        lock,
        clean,
        broker_epoch,
        meta,
        recovery_points,
        log_starts,
        high_watermarks,
    )


def _read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Without them all logs are checked and begin with their first segment, as with Kafka: that is
    better than to serve none of them."""
    try:
        return checkpoints.read_offsets(files, path)
    except CorruptCheckpoint as problem:
        _log.error("%s counts as empty: %s", path, problem)
        return {}


def partitions_in(files: Files, path: Path) -> Iterator[FoundPartition]:
    """Every partition's folder; what earlier deletions left behind is removed on the way."""
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
        yield FoundPartition(topic, partition, checkpoints.read_topic_id(files, folder), path)
