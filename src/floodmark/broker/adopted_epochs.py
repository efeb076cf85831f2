"""Finds the last leader epochs in a data folder being adopted.

`identity.py` calls it for a folder without a metadata store. New leader epochs must be higher than
these, or new records would be mistaken for old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from floodmark.broker.adopted_batches import sound_batches
from floodmark.storage.checkpoints import CorruptCheckpoint, read_pairs
from floodmark.storage.files import Files
from floodmark.storage.log.leader_epochs import FILE_NAME
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.recovery.segment_files import log_paths
from floodmark.vocabulary import TopicPartition


def last_leader_epochs(files: Files, found: Sequence[FoundPartition]) -> dict[TopicPartition, int]:
    """Omits partitions that nobody has written to."""
    last: dict[TopicPartition, int] = {}
    for item in found:
        epochs = _epochs(files, item.folder)
        if epochs:
            last[item.topic, item.partition] = max(epochs)
    return last


def _epochs(files: Files, folder: Path) -> list[int]:
    """Empty if the files are unreadable or folders: such a partition is not opened."""
    try:
        return _in_checkpoint(files, folder) or _in_log(files, folder)
    except (IsADirectoryError, NotADirectoryError, PermissionError):
        return []


def _in_checkpoint(files: Files, folder: Path) -> list[int]:
    """The file is not synced when written. A torn one is rebuilt when the log opens."""
    try:
        return [leader_epoch for leader_epoch, _ in read_pairs(files, folder / FILE_NAME) or ()]
    except CorruptCheckpoint:
        return []


def _in_log(files: Files, folder: Path) -> list[int]:
    """The epochs in the last segment that has batches."""
    for path in reversed(log_paths(files, folder)):
        epochs = [header.partition_leader_epoch for header, _ in sound_batches(files, path)]
        if epochs:
            return epochs
    return []
