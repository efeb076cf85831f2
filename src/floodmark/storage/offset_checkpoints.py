"""The checkpoint files of all log folders: recovery points, log start offsets, high watermarks.

Owned by log_manager.py. Writes one file at a time. Everything here blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from floodmark.storage import checkpoints
from floodmark.storage.errors import LogDirFailure, StorageError, storage_failure
from floodmark.storage.files import Files
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_dir import LogDir
from floodmark.vocabulary import TopicPartition


class OffsetCheckpoints:
    """`dirs` and `logs` are the log manager's own dictionaries of online folders and open logs."""

    def __init__(
        self,
        files: Files,
        dirs: Mapping[Path, LogDir],
        logs: Mapping[TopicPartition, PartitionLog],
    ) -> None:
        self._files = files
        self._dirs = dirs
        self._logs = logs
        self._lock = threading.Lock()
        # From the last run; replication starts from these.
        self.high_watermarks: dict[TopicPartition, int] = {}

    def is_gone(self, key: TopicPartition, log_dir: LogDir) -> None:
        """The checkpoints' entries for this log no longer apply."""
        self.high_watermarks.pop(key, None)
        with self._lock:
            log_dir.gone.add(key)

    def is_moved(self, key: TopicPartition, source: LogDir, target: LogDir) -> None:
        with self._lock:
            source.gone.add(key)
            target.gone.discard(key)

    def forget(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Before a new log takes an earlier one's name.

        Otherwise, after a crash, its records would count as deleted, because the earlier log
        started above them.
        """
        self.is_gone(key, log_dir)
        for name in log_dir.names(key):
            self.write(name, only_dir=log_dir.path)
        with self._lock:
            log_dir.gone.discard(key)

    def write(self, name: str, *, only_dir: Path | None = None) -> None:
        with self._lock:
            offsets: dict[Path, dict[TopicPartition, int]] = {
                path: {} for path in list(self._dirs) if only_dir in (None, path)
            }
            open_logs = dict(self._logs)
            for key, log in open_logs.items():
                value = self._value_in(name, log)
                by_dir = offsets.get(log.directory.parent)
                if by_dir is not None and value is not None:
                    by_dir[key] = value
            problems: list[StorageError] = []
            for path, by_partition in offsets.items():
                log_dir = self._dirs.get(path)
                try:
                    if log_dir is not None:
                        log_dir.keep_lock(self._files)
                        log_dir.write_checkpoint(self._files, name, by_partition, open_logs)
                except StorageError as problem:
                    problems.append(problem)
                except OSError as error:
                    problems.append(storage_failure(error, path, name))
            if problems:
                # The others were written. A lost folder matters most.
                raise max(problems, key=lambda one: isinstance(one, LogDirFailure))

    def _value_in(self, name: str, log: PartitionLog) -> int | None:
        if name == checkpoints.RECOVERY_POINTS:
            return log.recovery_point
        if name == checkpoints.LOG_START_OFFSETS:
            return log.log_start_offset or None
        return self.high_watermarks.get((log.topic, log.partition))
