"""Truncates several logs together, as followers need after a change of leaders.

Called by log_manager.py. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from floodmark.storage.errors import StorageError
from floodmark.storage.log.partition_log import PartitionLog


class Cut(NamedTuple):
    """A truncation to this offset, or of everything, to continue at this offset."""

    log: PartitionLog
    offset: int
    keeps_start: bool = True


def truncate_logs(
    cuts: Sequence[Cut], checkpoint_recovery_points: Callable[[Path], None], now_ms: int
) -> list[StorageError | None]:
    """Returns the error of each, or None."""
    problems = _lower_recovery_points(cuts, checkpoint_recovery_points)
    return [problems.get(cut.log.directory.parent) or _truncate(cut, now_ms) for cut in cuts]


def _lower_recovery_points(
    cuts: Sequence[Cut], checkpoint_recovery_points: Callable[[Path], None]
) -> dict[Path, StorageError]:
    """Lowers them on disk before anything is cut, once per folder.

    After a power loss in between, recovery must check everything that the truncations touch.
    """
    folders: dict[Path, None] = {}
    for log, offset, keeps_start in cuts:
        if not keeps_start or offset < log.log_end_offset:
            log.lower_recovery_point(offset if keeps_start else 0)
            folders[log.directory.parent] = None
    problems: dict[Path, StorageError] = {}
    for folder in folders:
        try:
            checkpoint_recovery_points(folder)
        except StorageError as problem:
            problems[folder] = problem
    return problems


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
