"""The disk side of moving logs between log folders (AlterReplicaLogDirs).

Owned by `LogManager`; `broker/folder_moves.py` decides when. A move copies the log into a folder
`{topic}-{partition}.{id}-future`, which then replaces the original:

1. the copy is synced, and takes over all state that is not in the batches;
2. the original is renamed to `{topic}-{partition}.{id}-delete`, and that is synced;
3. the copy gets the name `{topic}-{partition}`.

A start that finds the id of a `-future` folder in a `-delete` folder completes the move. Any other
copy is removed, and the move starts over.
"""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import UUID

from floodmark.storage import checkpoints
from floodmark.storage.errors import LogDirFailure, StorageError, storage_failure
from floodmark.storage.files import Files
from floodmark.storage.folder_names import (
    FutureName,
    finished_move,
    name_future,
    name_moved,
    parse_directory_name,
    parse_future_name,
)
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)


class NameTooLong(StorageError):
    """The topic's name leaves no room for the suffix of a move."""


class LogMoves:
    """`futures` holds the copies in progress, by partition."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.futures: dict[TopicPartition, PartitionLog] = {}
        # Moves that the last shutdown interrupted, with their targets.
        self.interrupted: dict[TopicPartition, Path] = {}

    def complete(self, paths: list[Path], *, all_online: bool) -> None:
        """At the start, before any log is opened (blocks).

        While a folder is offline, nobody knows how far a move had come, so its files stay.
        """
        if not all_online:
            return
        names = {path: self._files.listdir(path) for path in paths}
        here = {name for in_folder in names.values() for name in in_folder}
        finished = {move for name in here if (move := finished_move(name)) is not None}
        for path, in_folder in names.items():
            for name in in_folder:
                future = parse_future_name(name)
                if future is not None:
                    self._complete_one(path, name, future, future.move in finished, here)

    def _complete_one(
        self, path: Path, name: str, future: FutureName, is_finished: bool, here: set[str]
    ) -> None:
        if is_finished and future.name not in here:
            logger.warning("completing the move of %s to %s", future.name, path)
            self._files.rename(path / name, path / future.name)
            self._files.fsync_dir(path)
            return
        self._files.remove_tree(path / name)
        if future.name in here:
            self.interrupted[parse_directory_name(future.name)] = path

    def begin(
        self, current: PartitionLog, target: Path, topic_id: UUID | None, now_ms: int
    ) -> PartitionLog:
        """Creates an empty copy in the folder `target` (blocks)."""
        name = name_future(current.directory.name)
        if name is None:
            raise NameTooLong(f"the name of topic {current.topic} is too long for a move")
        future = PartitionLog.open(
            self._files,
            target / name,
            current.config,
            now_ms=now_ms,
            producer_expiration_ms=current.producers.expiration_ms,
        )
        if topic_id is not None:
            try:
                checkpoints.write_topic_id(self._files, future.directory, topic_id)
            except OSError as error:
                raise storage_failure(error, target, name) from error
        if current.log_start_offset > 0:
            future.truncate_fully_and_start_at(current.log_start_offset, now_ms)
        self.futures[current.topic, current.partition] = future
        return future

    def abandon(self, future: PartitionLog) -> None:
        """Drops a copy (blocks)."""
        key = (future.topic, future.partition)
        if self.futures.get(key) is future:
            del self.futures[key]
        future.close(0, clean=False)
        try:
            if self._files.exists(future.directory):
                self._files.remove_tree(future.directory)
        except OSError as error:
            raise storage_failure(error, future.directory.parent, "a move") from error

    def finish(self, current: PartitionLog, future: PartitionLog) -> Path:
        """Replaces the log by the copy. Returns the folder to remove later.

        Nothing may be appended meanwhile, so this runs on the loop, where it waits for one folder's
        sync.
        """
        key = (current.topic, current.partition)
        name = parse_future_name(future.directory.name)
        if name is None or self.futures.get(key) is not future:
            raise StorageError(f"{future.directory} is not being moved")
        future.become(current)
        left = current.directory.with_name(name_moved(name))
        place = future.directory.with_name(name.name)
        source = current.directory
        try:
            self._files.rename(source, left)
            self._files.fsync_dir(source.parent)
        except OSError as error:
            raise LogDirFailure(source.parent, f"moving {name.name}: {error}") from error
        del self.futures[key]
        # From here on, a start would complete the move.
        future.move_to(place)
        current.sync.is_closed = True
        return left
