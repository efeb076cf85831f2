"""A folder without a metadata store is led by an epoch above those that its logs hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.broker.adopted_epochs import last_leader_epochs
from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log.leader_epochs import FILE_NAME
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_dir import FoundPartition
from floodmark.testing.memory_files import MemoryFiles

LOG_DIR = Path("/logs")
FOLDER = LOG_DIR / "t-0"


def latest_epoch(files: MemoryFiles) -> int | None:
    found = last_leader_epochs(files, [FoundPartition("t", 0, None, LOG_DIR)])
    return found.get(("t", 0))


@pytest.mark.parametrize("epoch_file", ["whole", "lost", "torn"])
@pytest.mark.parametrize("rolled", [False, True])
def test_the_latest_epoch_is_found_whatever_became_of_its_file(
    epoch_file: str, rolled: bool
) -> None:
    files = MemoryFiles()
    log = PartitionLog.open(files, FOLDER, LogConfig(), now_ms=1)
    for leader_epoch in (0, 7, 23):
        batch = encode_batch([Record(0, 1, b"k", b"v", [])])
        log.append(batch, read_header(batch), leader_epoch, 1)
    if rolled:
        log.roll(1)
    log.close(1)
    if epoch_file == "lost":
        files.remove(FOLDER / FILE_NAME)
    elif epoch_file == "torn":
        files.open(FOLDER / FILE_NAME).truncate(3)
    assert latest_epoch(files) == 23


def test_an_empty_log_has_no_epoch() -> None:
    files = MemoryFiles()
    PartitionLog.open(files, FOLDER, LogConfig(), now_ms=1).close(1)
    assert latest_epoch(files) is None
