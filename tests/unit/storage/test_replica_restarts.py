"""What the simulator of clusters found in the log: epochs and ids after truncation and crash."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.checkpoints import read_topic_id, write_topic_id
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
LOG_DIR = Path("/logs")
DIRECTORY = LOG_DIR / "t-0"


def opened(files: MemoryFiles) -> tuple[LogManager, PartitionLog]:
    manager = LogManager(files, [LOG_DIR], recovery_threads=1)
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: LogConfig(), NOW_MS)
    return manager, manager.get_or_create("t", 0, None, LogConfig(), now_ms=NOW_MS)


def append(log: PartitionLog, leader_epoch: int, count: int = 1) -> None:
    for _ in range(count):
        batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
        log.append(batch, read_header(batch), leader_epoch, NOW_MS)


def test_truncating_to_the_end_forgets_an_epoch_that_wrote_nothing() -> None:
    """Else a deposed leader names that epoch for ever, and its leader, who never heard of it,
    tells it for ever to truncate."""
    manager, log = opened(MemoryFiles())
    append(log, leader_epoch=4, count=3)
    log.leader_epochs.assign(6, log.log_end_offset)
    manager.truncate_to(log, 3, NOW_MS)
    assert log.log_end_offset == 3
    assert log.leader_epochs.latest == 4


def test_recovery_believes_the_batches_and_not_the_epochs_written_after_a_truncation() -> None:
    """A truncation whose cut is lost with the power while the epochs written after it are kept."""
    files = MemoryFiles()
    manager, log = opened(files)
    append(log, leader_epoch=2, count=5)
    log.fsync()
    manager.checkpoint_recovery_points()
    manager.truncate_to(log, 3, NOW_MS)
    append(log, leader_epoch=3)
    epochs_path = DIRECTORY / "leader-epoch-checkpoint"
    file = files.open(epochs_path)
    file.fsync()
    file.close()
    files.fsync_dir(DIRECTORY)
    _, recovered = opened(files.crash())
    assert recovered.log_end_offset == 5
    assert (recovered.leader_epochs.epochs, recovered.leader_epochs.start_offsets) == ([2], [0])


@pytest.mark.parametrize("torn", [b"", b"version: 0\ntopic_id: AAA", bytes(40), b"\xff\xfe"])
def test_a_torn_topic_id_counts_as_none_and_does_not_take_the_folder(torn: bytes) -> None:
    files = MemoryFiles()
    _, log = opened(files)
    append(log, leader_epoch=0)
    write_topic_id(files, DIRECTORY, UUID(int=1))
    files.write_file_atomic(DIRECTORY / "partition.metadata", torn)
    assert read_topic_id(files, DIRECTORY) is None
    manager, again = opened(files.crash(None))
    assert not manager.offline_dirs
    assert again.directory == DIRECTORY


def test_a_full_disk_does_not_keep_the_logs_from_being_closed() -> None:
    files = MemoryFiles()
    manager, log = opened(files)
    append(log, leader_epoch=0, count=3)
    log.fsync()
    files.faults.space_bytes = 0
    manager.close(NOW_MS)
    assert not files.exists(LOG_DIR / ".kafka_cleanshutdown")
    files.faults.space_bytes = None
    _, again = opened(files)
    assert again.log_end_offset == 3
