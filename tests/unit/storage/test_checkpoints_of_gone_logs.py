"""What the checkpoint files say about a log says nothing about a later one of the same name."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import uuid4

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage import checkpoints
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
LOG_DIR = Path("/logs")
KEY = ("t", 0)


def append(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
        log.append(batch, read_header(batch), 0, NOW_MS)


def started(files: MemoryFiles) -> LogManager:
    manager = LogManager(files, [LOG_DIR])
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: LogConfig(), NOW_MS)
    return manager


def made(manager: LogManager, *, is_new: bool = True) -> PartitionLog:
    return manager.get_or_create(*KEY, uuid4(), LogConfig(), now_ms=NOW_MS, is_new=is_new)


def checkpoint_all(manager: LogManager) -> None:
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks({KEY: 10})


def with_checkpoints(files: MemoryFiles) -> LogManager:
    """A log of ten records, eight of them deleted, with all checkpoints written."""
    manager = started(files)
    log = made(manager)
    append(log, 10)
    log.fsync(NOW_MS)
    log.advance_log_start(8)
    checkpoint_all(manager)
    return manager


def test_a_topic_made_again_keeps_its_records_over_a_kill() -> None:
    files = MemoryFiles()
    manager = with_checkpoints(files)
    manager.delete(*KEY)
    append(made(manager), 3)

    again = started(files.at(files.operations))
    log = again.get(*KEY)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert log.recovery_point == 0
    assert KEY not in again.high_watermarks


def test_a_log_whose_folder_is_gone_is_made_again_without_its_checkpoints() -> None:
    files = MemoryFiles()
    with_checkpoints(files).close(NOW_MS)
    files.remove_tree(LOG_DIR / "t-0")
    manager = started(files)
    log = made(manager, is_new=False)
    assert KEY not in manager.high_watermarks
    append(log, 3)

    again = started(files.at(files.operations)).get(*KEY)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (0, 3)


def test_a_log_that_could_not_be_opened_keeps_its_checkpoints() -> None:
    files = MemoryFiles()
    with_checkpoints(files).close(NOW_MS)
    manager = LogManager(files, [LOG_DIR])
    manager.open_dirs()
    manager.load([], lambda topic: LogConfig(), NOW_MS)
    manager.get_or_create("other", 0, uuid4(), LogConfig(), now_ms=NOW_MS)
    checkpoint_all(manager)
    points = checkpoints.read_offsets(files, LOG_DIR / checkpoints.RECOVERY_POINTS)
    assert points == {KEY: 10, ("other", 0): 0}

    again = started(files.at(files.operations)).get(*KEY)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (8, 10)


def test_what_was_deleted_leaves_the_checkpoints() -> None:
    files = MemoryFiles()
    manager = with_checkpoints(files)
    manager.delete(*KEY)
    checkpoint_all(manager)
    for name in checkpoints.OFFSET_FILES:
        assert checkpoints.read_offsets(files, LOG_DIR / name) == {}


def test_a_log_that_could_not_be_opened_after_a_crash_is_recovered_at_a_later_start() -> None:
    files = MemoryFiles()
    with_checkpoints(files)
    for image in files.crashes(3, Random(1)):
        for can_open in (False, True):
            manager = LogManager(image, [LOG_DIR])
            manager.open_dirs()
            assert not manager.was_clean
            if can_open:
                manager.load(manager.found_partitions(), lambda topic: LogConfig(), NOW_MS)
            manager.close(NOW_MS, clean=True)
        assert started(image).was_clean


def test_a_folder_that_is_gone_does_not_keep_the_others_from_being_stopped_cleanly() -> None:
    files = MemoryFiles()
    with_checkpoints(files)
    image = next(iter(files.crashes(1, Random(1))))
    image.remove_tree(LOG_DIR / "t-0")
    manager = started(image)
    assert not manager.was_clean
    manager.close(NOW_MS, clean=True)
    assert started(image).was_clean
