"""Rebuilds a corrupt transaction index, even if interrupted.

Only the index tells which transactions were aborted, once the recovery point has passed its
segment. So a corrupt one is first renamed. As long as that file exists, every start rebuilds the
indexes of the whole log from its markers. Called by recovery.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from floodmark.storage.files import Files
from floodmark.storage.indexes.index_file import CorruptIndex
from floodmark.storage.indexes.transaction_index import TransactionIndex
from floodmark.storage.log.segment import Segment, segment_path

logger = logging.getLogger(__name__)
_SUFFIX: Final = ".txnindex"
_ASIDE: Final = _SUFFIX + ".broken"


def put_aside(files: Files, directory: Path, base_offsets: Sequence[int]) -> None:
    """Renames corrupt indexes, durably, before anything writes to the others."""
    for base_offset in base_offsets:
        path = segment_path(directory, base_offset, _SUFFIX)
        try:
            TransactionIndex(files, path, base_offset).load()
        except CorruptIndex as problem:
            logger.warning("%s: recovering the whole log: %s", directory.name, problem)
            files.rename(path, segment_path(directory, base_offset, _ASIDE))
    files.fsync_dir(directory)


def are_aside(files: Files, directory: Path) -> bool:
    """Whether the indexes still need rebuilding, by this start or an unfinished earlier one."""
    return any(name.endswith(_ASIDE) for name in files.listdir(directory))


def finish(files: Files, directory: Path, segments: Sequence[Segment]) -> None:
    """Syncs the rebuilt indexes, then removes the corrupt ones."""
    for segment in segments:
        # No later sync covers what is below the recovery point.
        segment.fsync_indexes()
    files.fsync_dir(directory)
    for name in files.listdir(directory):
        if name.endswith(_ASIDE):
            files.remove(directory / name)
