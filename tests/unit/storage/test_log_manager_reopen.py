"""A log that could not be opened at the start is recovered when it can."""

from pathlib import Path
from uuid import UUID

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import InconsistentTopicId
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

FOLDER = Path("/logs")
TOPIC_ID = UUID(int=7)


def opened(files: MemoryFiles) -> LogManager:
    logs = LogManager(files, [FOLDER])
    logs.open_dirs()
    return logs


def append(logs: LogManager, count: int) -> None:
    log = logs.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=1)
    for _ in range(count):
        batch = encode_batch([Record(0, 1, None, b"v", [])])
        log.append(batch, read_header(batch), 0, 1)
    log.fsync()


def test_a_torn_tail_is_cut_even_when_the_log_is_opened_later_than_at_the_start():
    files = MemoryFiles()
    logs = opened(files)
    append(logs, 3)
    log = logs.get("t", 0)
    segment = log.active.path
    log.active.file.append(b"half a batch")
    logs.close(2, clean=False)

    again = opened(files)
    found = again.found_partitions()
    assert [item.topic for item in found] == ["t"]
    reopened = again.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=3)
    assert reopened.log_end_offset == 3
    assert b"half a batch" not in files.read_file(segment)


def test_a_topic_made_again_under_its_name_begins_at_zero():
    files = MemoryFiles()
    logs = opened(files)
    append(logs, 3)
    logs.get("t", 0).advance_log_start(2)
    logs.checkpoint_log_start_offsets()
    logs.close(2, clean=True)

    again = opened(files)
    again.load(again.found_partitions(), lambda topic: LogConfig(), 3)
    again.delete("t", 0)
    made_anew = again.get_or_create("t", 0, UUID(int=8), LogConfig(), now_ms=4)
    assert (made_anew.log_start_offset, made_anew.log_end_offset) == (0, 0)


def test_what_a_deleted_topic_left_behind_does_not_come_back_in_a_new_one():
    files = MemoryFiles()
    logs = opened(files)
    append(logs, 3)
    logs.close(2, clean=False)

    # The process ended between the commit of the deletion and the renaming of the folder.
    again = opened(files)
    again.load([], lambda topic: LogConfig(), 3)
    made_anew = again.get_or_create("t", 0, UUID(int=8), LogConfig(), now_ms=4)
    assert made_anew.log_end_offset == 0
    assert again.topic_ids["t", 0] == UUID(int=8)
    left = [name for name in files.listdir(FOLDER) if name.endswith("-delete")]
    assert len(left) == 1
    assert left[0].startswith("t-0.")
    again.close(5)

    opened(files).found_partitions()
    assert [name for name in files.listdir(FOLDER) if name.endswith("-delete")] == []


def test_the_log_of_another_topic_id_is_left_alone_when_the_topic_is_not_new():
    files = MemoryFiles()
    logs = opened(files)
    append(logs, 3)
    logs.close(2)
    again = opened(files)
    with pytest.raises(InconsistentTopicId):
        again.get_or_create("t", 0, UUID(int=8), LogConfig(), now_ms=4, is_new=False)
    assert "t-0" in files.listdir(FOLDER)


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
def test_a_broken_checkpoint_takes_no_folder_offline_and_the_logs_are_checked(name: str):
    files = MemoryFiles()
    logs = opened(files)
    append(logs, 3)
    logs.checkpoint_high_watermarks({("t", 0): 3})
    log = logs.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=1)
    log.advance_log_start(1)
    logs.close(1)
    path = FOLDER / f"{name}-offset-checkpoint"
    files.flip_bit(path, len(files.read_file(path)) - 1)

    logs = opened(files)
    assert not logs.offline_dirs
    logs.load(logs.found_partitions(), lambda topic: LogConfig(), 1)
    log = logs.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=1)
    assert log.log_end_offset == 3
