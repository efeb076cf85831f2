"""Moves between log folders on the disk: whatever interrupts them, a start finds one whole log."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from floodmark.records.batch import read_header, writable
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.folder_names import name_future, parse_future_name
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

FIRST, SECOND = Path("/first"), Path("/second")
TOPIC_ID = UUID(int=7)
KEY = ("t", 0)
CONFIG = LogConfig(segment_bytes=300)
RECORDS = 12


def manager_on(files: MemoryFiles) -> LogManager:
    manager = LogManager(files, [FIRST, SECOND], recovery_threads=1)
    manager.open_dirs()
    return manager


def append(log: PartitionLog, value: bytes, leader_epoch: int = 0) -> None:
    batch = writable(encode_batch([Record(0, 5, b"k", value, [])]))
    log.append(batch, read_header(batch), leader_epoch, 0)


def copy(current: PartitionLog, future: PartitionLog) -> None:
    while (
        piece := current.read(future.log_end_offset, 250, end_offset=current.log_end_offset)
    ) is not None:
        future.append_as_follower(piece.read(), 0)


def values(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, end_offset=log.log_end_offset)
        assert piece is not None
        records = [r for r in decode_records(piece.read()) if r.offset >= offset]
        found += [record.value for record in records]
        offset = records[-1].offset + 1
    return found


EXPECTED = [b"%d" % number for number in range(RECORDS)]


def full_log(manager: LogManager) -> PartitionLog:
    log = manager.get_or_create(*KEY, TOPIC_ID, CONFIG, now_ms=0)
    for value in EXPECTED:
        append(log, value)
    log.fsync()
    manager.checkpoint_recovery_points()
    return log


def other_than(log: PartitionLog) -> Path:
    return SECOND if log.directory.parent == FIRST else FIRST


def opened(files: MemoryFiles) -> LogManager:
    manager = manager_on(files)
    manager.load(manager.found_partitions(), lambda _: CONFIG, 0)
    return manager


def test_a_moved_log_goes_on_in_its_new_folder() -> None:
    files = MemoryFiles()
    manager = manager_on(files)
    log = full_log(manager)
    target = other_than(log)
    future = manager.begin_move(*KEY, target, 0)
    assert parse_future_name(future.directory.name).name == "t-0"
    assert (future.topic, future.partition) == KEY
    copy(log, future)
    future.fsync()
    remove = manager.finish_move(future)
    assert manager.get(*KEY) is future
    assert future.directory == target / "t-0"
    for number in range(RECORDS):
        append(future, b"later %d" % number)
    remove()
    assert not any("t-0" in name for name in files.listdir(log.directory.parent))
    assert manager.close(0)
    again = opened(files).get(*KEY)
    assert again is not None and again.directory == target / "t-0"
    assert values(again) == EXPECTED + [b"later %d" % number for number in range(RECORDS)]


def test_a_start_after_a_crash_anywhere_in_a_move_finds_one_whole_log() -> None:
    files = MemoryFiles()
    manager = manager_on(files)
    log = full_log(manager)
    first = files.operations
    future = manager.begin_move(*KEY, other_than(log), 0)
    copy(log, future)
    future.fsync()
    remove = manager.finish_move(future)
    append(future, b"acknowledged")
    future.fsync()
    synced = files.operations
    remove()
    places = set()
    for operations in range(first, files.operations + 1):
        for disk in (files.at(operations), files.at(operations).crash(Random(operations))):
            found = opened(disk)
            survivor = found.get(*KEY)
            assert survivor is not None, operations
            here = values(survivor)
            assert here[:RECORDS] == EXPECTED, operations
            if operations >= synced:
                assert here == [*EXPECTED, b"acknowledged"]
            places.add(survivor.directory.parent)
            found.close(0)
    assert places == {FIRST, SECOND}


def test_an_interrupted_move_is_known_and_its_copy_is_gone() -> None:
    files = MemoryFiles()
    manager = manager_on(files)
    log = full_log(manager)
    target = other_than(log)
    manager.begin_move(*KEY, target, 0)
    again = opened(files.at(files.operations))
    assert again.moves.interrupted == {KEY: target}
    survivor = again.get(*KEY)
    assert survivor is not None and survivor.directory == log.directory


def test_epochs_without_records_and_producers_survive_a_move() -> None:
    """KAFKA-20961."""
    files = MemoryFiles()
    manager = manager_on(files)
    log = full_log(manager)
    log.leader_epochs.begin(7, log.log_end_offset)
    future = manager.begin_move(*KEY, other_than(log), 0)
    copy(log, future)
    assert future.leader_epochs.latest == 0
    manager.finish_move(future)
    assert future.leader_epochs.latest == 7
    assert future.end_offset_for_epoch(0) == (0, RECORDS)
    assert future.producers is log.producers


def test_a_log_that_starts_late_starts_there_after_a_move() -> None:
    manager = manager_on(MemoryFiles())
    log = full_log(manager)
    log.advance_log_start(5)
    future = manager.begin_move(*KEY, other_than(log), 0)
    copy(log, future)
    log.advance_log_start(6)
    manager.finish_move(future)
    assert future.log_start_offset == 6
    assert values(future) == EXPECTED[6:]


def test_a_deleted_topic_takes_its_copy_along() -> None:
    files = MemoryFiles()
    manager = manager_on(files)
    log = full_log(manager)
    target = other_than(log)
    manager.begin_move(*KEY, target, 0)
    manager.delete(*KEY)
    assert manager.moves.futures == {}
    assert not any("-future" in name for name in files.listdir(target))


def test_a_partition_that_is_not_here_yet_goes_where_it_is_wanted() -> None:
    manager = manager_on(MemoryFiles())
    manager.get_or_create("other", 0, TOPIC_ID, CONFIG, now_ms=0)
    manager.prefer_dir(KEY, FIRST)
    assert full_log(manager).directory.parent == FIRST


@pytest.mark.parametrize(("length", "fits"), [(200, True), (249, False)])
def test_a_topic_name_must_leave_room_for_the_mark_of_a_move(length: int, fits: bool) -> None:
    assert (name_future("t" * length + "-0") is not None) is fits
