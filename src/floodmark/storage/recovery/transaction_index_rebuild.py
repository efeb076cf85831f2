"""How a broken transaction index is made anew, whatever happens meanwhile.

An index tells which transactions were aborted, and nothing else does once the recovery point has
passed its segment. So a broken one is put aside under another name first; as long as that file is
there, every start makes the indexes of the whole log anew from its markers. Called by recovery.py.
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
    """Rename the broken ones; that is on the disk before anybody writes to the others."""
    for base_offset in base_offsets:
        path = segment_path(directory, base_offset, _SUFFIX)
        try:
            TransactionIndex(files, path, base_offset).load()
        except CorruptIndex as problem:
            logger.warning("%s: recovering the whole log: %s", directory.name, problem)
            files.rename(path, segment_path(directory, base_offset, _ASIDE))
    files.fsync_dir(directory)


def are_aside(files: Files, directory: Path) -> bool:
    """Whether the indexes have yet to be made anew, by this start or by one that did not finish."""
    return any(name.endswith(_ASIDE) for name in files.listdir(directory))


def made_anew(files: Files, directory: Path, segments: Sequence[Segment]) -> None:
    """All of them are written; when they are on the disk, too, the broken ones can go."""
    for segment in segments:
        # No later sync looks below the recovery point.
        segment.fsync_indexes()
    files.fsync_dir(directory)
    for name in files.listdir(directory):
        if name.endswith(_ASIDE):
            files.remove(directory / name)
