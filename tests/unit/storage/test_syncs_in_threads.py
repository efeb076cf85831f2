"""What the loop does to a log does not wait for a sync of it that runs in a thread."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import LogClosed, LogDirFailure, StorageError
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFile, MemoryFiles

DIRECTORY = Path("/logs/t-0")
WAIT_S = 30


class SlowDisk(MemoryFiles):
    """Syncs of files end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()
        self.has_begun = threading.Event()

    def check(self, method: str) -> None:
        super().check(method)
        if method == "fsync":
            self.has_begun.set()
            assert self.may_end.wait(WAIT_S)


def open_log(files: SlowDisk) -> PartitionLog:
    log = PartitionLog.open(files, DIRECTORY, LogConfig(segment_bytes=200), now_ms=1)
    for _ in range(8):
        batch = encode_batch([Record(0, 1, None, b"v" * 20, [])])
        log.append(batch, read_header(batch), 0, 1)
    return log


@contextmanager
def sync_under_way(files: SlowDisk, log: PartitionLog) -> Iterator[None]:
    problems: list[Exception] = []

    def sync() -> None:
        try:
            log.fsync()
        except (StorageError, OSError) as problem:
            problems.append(problem)

    thread = threading.Thread(target=sync)
    thread.start()
    try:
        assert files.has_begun.wait(WAIT_S)
        yield
    finally:
        files.may_end.set()
        thread.join(WAIT_S)
    assert not problems


def test_a_log_is_deleted_while_it_is_synced_and_its_files_are_closed_afterwards() -> None:
    files = SlowDisk()
    log = open_log(files)
    with sync_under_way(files, log):
        folder = log.delete()
        assert files.listdir(DIRECTORY.parent) == [folder.name]
    with pytest.raises(LogClosed):
        log.read(0, 10, end_offset=1)


def test_the_oldest_segments_leave_the_log_while_it_is_synced_and_are_renamed_afterwards() -> None:
    files = SlowDisk()
    log = open_log(files)
    with sync_under_way(files, log):
        detached = log.detach_oldest(2, 1)
        assert log.log_start_offset == log.segments[0].base_offset > 0
        assert files.exists(detached[0].path)
    log.retire(detached).remove()
    assert not files.exists(detached[0].path)
    assert log.fsync() == 8


def test_a_late_removal_leaves_the_files_of_a_topic_made_again_alone() -> None:
    files = SlowDisk()
    files.may_end.set()
    log = open_log(files)
    detached = log.detach_oldest(1, 1)
    log.delete()
    again = open_log(files)
    with pytest.raises(LogClosed):
        log.retire(detached)
    assert files.exists(again.segments[0].path)


def test_names_are_synced_before_a_roll_needs_them() -> None:
    files = SlowDisk()
    files.may_end.set()
    log = open_log(files)
    assert log.names_due(1)
    log.sync_names()
    assert not log.names_due(1)
    # A roll would have to do it itself.
    files.faults.errors["fsync_dir"] = errno.EIO
    log.roll(1)
    with pytest.raises(LogDirFailure):
        log.sync_names()


class OpeningDisk(MemoryFiles):
    """Runs something else while the next log file is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None
        self.opened: list[MemoryFile] = []

    def open(self, path: Path, *, create: bool = True) -> MemoryFile:
        file = super().open(path, create=create)
        if path.suffix == ".log":
            self.opened.append(file)
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
        return file


def test_an_append_to_a_segment_that_a_sync_is_opening_leaves_no_file_open() -> None:
    files = OpeningDisk()

    def append() -> None:
        batch = encode_batch([Record(0, 1, None, b"v", [])])
        log.append(batch, read_header(batch), 0, 1)

    log = PartitionLog.open(files, DIRECTORY, LogConfig(), now_ms=1)
    append()
    log.roll(1)
    log.close(1, clean=False)
    log = PartitionLog.open(files, DIRECTORY, LogConfig(), now_ms=1, clean=False)
    files.meanwhile = append
    assert log.fsync() == 1
    assert files.meanwhile is None
    assert log.log_end_offset == 2
    log.close(1)
    for file in files.opened:
        with pytest.raises(OSError, match="is closed"):
            file.pread(1, 0)
