"""Identifies segment files in a partition's folder, and cleans up unfinished work.

Compaction, retention and atomic writes mark files by name while they work. The next start finishes
or undoes what a crash has interrupted. Called by recovery.py before it opens the segments. The code
that sets the marks takes them from here.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from floodmark.records.batch import HEADER_BYTES, check_shape, crc_ok, read_header
from floodmark.records.errors import CorruptRecord
from floodmark.storage.checkpoints import PARTITION_METADATA
from floodmark.storage.files import Files
from floodmark.storage.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from floodmark.storage.log.segment import SUFFIXES, Segment, segment_path
from floodmark.storage.log_config import LogConfig

logger = logging.getLogger(__name__)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
# Unfinished writes of Files.write_file_atomic.
_TEMPORARY_SUFFIX: Final = ".tmp"
_OFFSET_DIGITS: Final = 20


def base_offsets_in(files: Files, directory: Path) -> list[int]:
    """The segments with a log file. Removes orphaned indexes without one."""
    names, logs = _files_and_logs(files, directory)
    for name in names:
        if name[_OFFSET_DIGITS:] in SUFFIXES[1:] and name[:_OFFSET_DIGITS] not in logs:
            files.remove(directory / name)
    return sorted(map(int, logs))


def log_paths(files: Files, directory: Path) -> list[Path]:
    """The log files of the segments, in offset order."""
    _, logs = _files_and_logs(files, directory)
    return [directory / f"{stem}.log" for stem in sorted(logs)]


def tell_of_lost_segments(files: Files, directory: Path) -> None:
    """An index between two segments means that a log file is lost. Retention removes only the first
    segments, and after a crash only the last may be unfinished."""
    names, logs = _files_and_logs(files, directory)
    first, last = min(logs, default=""), max(logs, default="")
    for name in names:
        stem = name[:_OFFSET_DIGITS]
        if name[_OFFSET_DIGITS:] == ".index" and stem not in logs and first < stem < last:
            logger.error("%s has no log file: its records are lost", directory / name)


def _files_and_logs(files: Files, directory: Path) -> tuple[list[str], set[str]]:
    """The names of all segment files, and the stems of log files."""
    names = [name for name in files.listdir(directory) if _is_of_segment(name)]
    return names, {name[:_OFFSET_DIGITS] for name in names if name[_OFFSET_DIGITS:] == ".log"}


def _is_of_segment(name: str) -> bool:
    """Ignores any other file in the folder."""
    stem, dot, _ = name.partition(".")
    return bool(dot) and len(stem) == _OFFSET_DIGITS and stem.isdecimal() and stem.isascii()


def remove_leftovers(files: Files, directory: Path, config: LogConfig) -> None:
    """Finishes deletions and compactions that were interrupted."""
    for name in (PARTITION_METADATA, EPOCHS_FILE):
        files.remove(directory / (name + _TEMPORARY_SUFFIX))
    names = [name for name in files.listdir(directory) if _is_of_segment(name)]
    cleaned = [int(name[:_OFFSET_DIGITS]) for name in names if name.endswith(CLEANED_SUFFIX)]
    unfinished_from = min(cleaned, default=None)
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
            files.remove(directory / name)
        elif (
            name.endswith(SWAP_SUFFIX)
            and unfinished_from is not None
            and int(name[:_OFFSET_DIGITS]) >= unfinished_from
        ):
            # It belongs to an operation that had not finished all its new segments.
            files.remove(directory / name)
    swaps = [
        name
        for name in files.listdir(directory)
        if _is_of_segment(name) and name.endswith(SWAP_SUFFIX)
    ]
    if swaps:
        _complete_swaps(files, directory, swaps, config)


def _complete_swaps(files: Files, directory: Path, swaps: list[str], config: LogConfig) -> None:
    """Compaction had finished its new segments: they replace the ones they were made from."""
    ranges: list[tuple[int, int]] = []
    for name in swaps:
        if name.endswith(".log" + SWAP_SUFFIX):
            base_offset = int(name[:_OFFSET_DIGITS])
            end_offset = _swap_end(files, directory / name, base_offset)
            if end_offset is None and files.exists(segment_path(directory, base_offset, ".log")):
                logger.error(
                    "%s is damaged; keeping the segments it was made from", directory / name
                )
                _remove_swaps(files, directory, swaps)
                return
            ranges.append((base_offset, end_offset or base_offset))
    if ranges:
        first = min(start for start, _ in ranges)
        end = max(stop for _, stop in ranges)
        for base_offset in base_offsets_in(files, directory):
            if first <= base_offset < end:
                Segment(files, directory, base_offset, config).remove_files()
    for name in swaps:
        files.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
    files.fsync_dir(directory)


def _remove_swaps(files: Files, directory: Path, swaps: list[str]) -> None:
    for name in swaps:
        files.remove(directory / name)


def _swap_end(files: Files, path: Path, base_offset: int) -> int | None:
    """The offset after the last batch, or None if one of them is damaged."""
    file = files.open(path)
    try:
        end = base_offset
        position, size_bytes = 0, file.size()
        while position < size_bytes:
            front = file.pread(HEADER_BYTES, position)
            if len(front) < HEADER_BYTES:
                return None
            header = read_header(front)
            check_shape(header)
            if not crc_ok(file.pread(header.size_bytes, position), 0, header):
                return None
            end = header.next_offset
            position += header.size_bytes
        return end
    except CorruptRecord:
        return None
    finally:
        file.close()
