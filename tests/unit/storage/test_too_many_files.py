"""A process that may open no more files: what is open goes on, the rest later."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import TooManyFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
DIRECTORY = Path("/logs/t-0")


def open_log(files: MemoryFiles) -> PartitionLog:
    return PartitionLog.open(files, DIRECTORY, LogConfig(index_interval_bytes=1), now_ms=NOW_MS)


def append(log: PartitionLog) -> None:
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
    log.append(batch, read_header(batch), 0, NOW_MS)


def with_old_segments(files: MemoryFiles) -> PartitionLog:
    log = open_log(files)
    for _ in range(3):
        for _ in range(5):
            append(log)
        log.roll(NOW_MS)
    append(log)
    log.close(NOW_MS)
    return open_log(files)


@pytest.mark.parametrize("method", ["open", "pread"])
def test_an_old_segment_that_cannot_be_opened_now_is_read_later(method: str) -> None:
    files = MemoryFiles()
    log = with_old_segments(files)
    files.faults.errors[method] = errno.EMFILE
    with pytest.raises(TooManyFiles):
        log.read(2, 100, end_offset=16)
    files.faults.errors.clear()
    assert log.read(2, 100, end_offset=16) is not None
    # Not only the file: the index, too, has been read by now.
    assert len(log.segments[0].offset_index) == 4
    assert log.segments[0].largest_timestamp == NOW_MS


def test_an_index_that_cannot_be_rebuilt_now_is_rebuilt_later() -> None:
    files = MemoryFiles()
    log = with_old_segments(files)
    files.remove(DIRECTORY / "00000000000000000000.index")
    files.faults.errors["open"] = errno.EMFILE
    with pytest.raises(TooManyFiles):
        log.read(2, 100, end_offset=16)
    files.faults.errors.clear()
    piece = log.read(2, 1, end_offset=16)
    assert piece is not None
    assert read_header(piece.read()).base_offset == 2
    assert log.segments[0].largest_timestamp == NOW_MS


@pytest.mark.parametrize("method", ["open", "fsync_dir"])
def test_a_sync_that_cannot_open_its_files_is_made_up_for(method: str) -> None:
    files = MemoryFiles()
    files.mkdir(DIRECTORY.parent)
    files.fsync_dir(Path("/"))
    log = open_log(files)
    append(log)
    log.roll(NOW_MS)
    append(log)
    files.faults.errors[method] = errno.EMFILE
    with pytest.raises(TooManyFiles):
        log.fsync()
    assert log.recovery_point == 0
    files.faults.errors.clear()
    assert log.fsync() == 2
    files = files.crash()
    assert files.read_file(DIRECTORY / "leader-epoch-checkpoint")
    # The time index of the finished segment has its last entry.
    assert files.read_file(DIRECTORY / "00000000000000000000.timeindex")


def test_the_first_append_after_a_start_is_refused_and_harms_nothing() -> None:
    files = MemoryFiles()
    open_log(files).close(NOW_MS)
    log = open_log(files)
    files.faults.errors["open"] = errno.EMFILE
    with pytest.raises(TooManyFiles):
        append(log)
    files.faults.errors.clear()
    append(log)
    assert log.log_end_offset == 1
