"""A partition whose log folder is offline is never made again in another one."""

from __future__ import annotations

import errno
from pathlib import Path
from uuid import UUID

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    read_offsets,
)
from floodmark.storage.errors import DiskFull, StorageError
from floodmark.storage.files import Buffer
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
A, B = Path("/a"), Path("/b")


class TwoDisks(MemoryFiles):
    """Each folder is a disk of its own that can be full."""

    def __init__(self) -> None:
        super().__init__()
        self.full_folders: set[Path] = set()

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        if self.full_folders.intersection(path.parents):
            raise OSError(errno.ENOSPC, "no space left", str(path))
        super().write_file_atomic(path, data, sync=sync)


def started(files: MemoryFiles) -> LogManager:
    logs = LogManager(files, [A, B])
    logs.open_dirs()
    logs.load(logs.found_partitions(), lambda topic: LogConfig(), NOW_MS)
    return logs


def opened(logs: LogManager, partition: int, *, is_new: bool) -> PartitionLog:
    return logs.get_or_create("t", partition, TOPIC_ID, LogConfig(), now_ms=NOW_MS, is_new=is_new)


def filled() -> TwoDisks:
    """Partition 0 is in the first folder, partition 1 in the second, with one record each."""
    files = TwoDisks()
    logs = started(files)
    for partition in range(2):
        batch = encode_batch([Record(0, NOW_MS, None, b"v", [])])
        opened(logs, partition, is_new=True).append(batch, read_header(batch), 0, NOW_MS)
    logs.close(NOW_MS)
    assert files.exists(A / "t-0")
    assert files.exists(B / "t-1")
    return files


def test_a_partition_of_a_folder_that_nobody_knows_is_not_made_again_elsewhere() -> None:
    files = filled()
    files.write_file_atomic(B / META_PROPERTIES, b"version=garbage\n")
    logs = started(files)
    assert list(logs.offline_dirs) == [B]
    assert opened(logs, 0, is_new=False).log_end_offset == 1
    with pytest.raises(StorageError, match="/b"):
        opened(logs, 1, is_new=False)
    assert not files.exists(A / "t-1")
    logs.close(NOW_MS)


def test_a_new_partition_goes_to_a_folder_that_works() -> None:
    files = filled()
    files.write_file_atomic(B / META_PROPERTIES, b"version=garbage\n")
    logs = started(files)
    assert opened(logs, 2, is_new=True).directory == A / "t-2"
    logs.close(NOW_MS)


def test_a_partition_of_a_folder_that_failed_while_serving_is_not_made_again() -> None:
    logs = started(filled())
    logs.fail_dir(B, "the disk is gone")
    with pytest.raises(StorageError):
        opened(logs, 1, is_new=False)
    logs.close(NOW_MS)


def test_a_known_partition_without_files_is_made_when_no_folder_is_offline() -> None:
    logs = started(filled())
    assert opened(logs, 5, is_new=False).log_end_offset == 0
    logs.close(NOW_MS)


def test_a_log_that_the_start_could_not_open_is_opened_where_it_lies() -> None:
    files = filled()
    logs = LogManager(files, [A, B])
    logs.open_dirs()
    found = logs.found_partitions()
    files.faults.errors["open"] = errno.EMFILE
    logs.load(found, lambda topic: LogConfig(), NOW_MS)
    assert logs.logs() == []
    files.faults.errors.clear()
    for partition, folder in ((1, B), (0, A)):
        log = opened(logs, partition, is_new=False)
        assert (log.directory.parent, log.log_end_offset) == (folder, 1)
    logs.close(NOW_MS)


def test_a_log_that_was_not_open_at_a_clean_stop_is_recovered_later() -> None:
    files = filled()
    logs = LogManager(files, [A, B])
    logs.open_dirs()
    segment = B / "t-1" / "00000000000000000000.log"
    files.open(segment).append(encode_batch([Record(0, NOW_MS, None, b"v", [])])[:-1])
    logs.close(NOW_MS)
    assert opened(started(files), 1, is_new=False).log_end_offset == 1
    assert len(files.read_file(segment)) == len(encode_batch([Record(0, NOW_MS, None, b"v", [])]))


def test_a_folder_that_nobody_knows_is_not_left_locked() -> None:
    files = filled()
    files.write_file_atomic(B / META_PROPERTIES, b"version=garbage\n")
    started(files).close(NOW_MS)
    files.remove(B / META_PROPERTIES)
    logs = started(files)
    assert not logs.offline_dirs
    assert len(logs.logs()) == 2
    logs.close(NOW_MS)


def test_a_disk_that_is_full_at_the_stop_costs_only_its_own_folder_the_clean_mark() -> None:
    files = filled()
    logs = started(files)
    batch = encode_batch([Record(0, NOW_MS, None, b"v", [])])
    opened(logs, 1, is_new=False).append(batch, read_header(batch), 0, NOW_MS)
    files.full_folders.add(B)
    logs.close(NOW_MS)
    assert files.exists(A / CLEAN_SHUTDOWN)
    assert not files.exists(B / CLEAN_SHUTDOWN)
    files.full_folders.clear()
    logs = started(files)
    assert opened(logs, 1, is_new=False).log_end_offset == 2
    logs.close(NOW_MS)


def test_a_full_folder_does_not_keep_the_others_from_their_checkpoints() -> None:
    files = filled()
    logs = started(files)
    opened(logs, 1, is_new=False).advance_log_start(1)
    files.full_folders.add(A)
    with pytest.raises(DiskFull):
        logs.checkpoint_log_start_offsets()
    assert read_offsets(files, B / LOG_START_OFFSETS) == {("t", 1): 1}
