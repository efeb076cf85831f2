"""Retention renames several segments, and a power loss may keep any of these renames.

Found by `make explore` with seed 950739885: the segment with the begin of an aborted transaction
came back and the one with its marker did not, so readers saw a hole and what had been aborted.
"""

from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import OffsetOutOfRange
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.crashing_files import CrashingFiles
from floodmark.testing.memory_files import Faults, MemoryFiles

NOW_MS = 1_700_000_000_000
LOG_DIR = Path("/logs")
ONE_BATCH_PER_SEGMENT = LogConfig(segment_bytes=100)


def open_log(files: MemoryFiles) -> tuple[LogManager, PartitionLog]:
    manager = LogManager(files, [LOG_DIR], recovery_threads=1)
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: ONE_BATCH_PER_SEGMENT, NOW_MS)
    log = manager.get_or_create("t", 0, None, ONE_BATCH_PER_SEGMENT, now_ms=NOW_MS)
    return manager, log


def append_records(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        batch = encode_batch([Record(0, NOW_MS, b"k", b"v" * 50, [])])
        log.append(batch, read_header(batch), 0, NOW_MS)


def test_a_segment_that_a_power_loss_brings_back_stays_hidden() -> None:
    files = CrashingFiles()
    manager, log = open_log(files)
    append_records(log, 4)
    log.fsync()
    first, *_ = detached = log.detach_oldest(2, NOW_MS)
    first_bytes = files.read_file(first.path)
    manager.retire(log, detached).remove()

    disk = files.at(files.operations)
    disk.write_file_atomic(first.path, first_bytes)
    _, recovered = open_log(disk)

    assert recovered.log_start_offset == 2
    with pytest.raises(OffsetOutOfRange):
        recovered.read(0, 1000, end_offset=4)
    assert recovered.read(2, 1000, end_offset=4) is not None


def test_a_full_disk_does_not_keep_retention_from_making_room() -> None:
    faults = Faults()
    files = MemoryFiles(faults)
    manager, log = open_log(files)
    append_records(log, 4)
    log.fsync()
    manager.checkpoint_recovery_points()
    detached = log.detach_oldest(2, NOW_MS)
    faults.space_bytes = 0
    manager.retire(log, detached).remove()
    assert not any(files.exists(segment.path) for segment in detached)
