"""Segments that have left a log: renamed immediately, removed later.

Created by PartitionLog for retention and by compaction_swap.py for the cleaner. The broker calls
`remove` after file.delete.delay.ms.
"""

from __future__ import annotations

from pathlib import Path

from floodmark.storage.files import Files
from floodmark.storage.log.segment import Segment
from floodmark.storage.recovery.segment_files import DELETED_SUFFIX


class RetiredSegments:
    """Their files are renamed and may still be read for a while."""

    __slots__ = ("_files", "_paths", "_segments")

    def __init__(self, files: Files, segments: list[Segment]) -> None:
        self._files = files
        self._segments = segments
        self._paths: list[Path] = []
        for segment in segments:
            for path in segment.paths():
                if files.exists(path):
                    target = path.with_name(path.name + DELETED_SUFFIX)
                    files.rename(path, target)
                    self._paths.append(target)

    def __len__(self) -> int:
        return len(self._segments)

    def remove(self) -> None:
        """Closes and removes the files. Blocks, so not on the loop."""
        for segment in self._segments:
            segment.close_file()
        for path in self._paths:
            self._files.remove(path)
