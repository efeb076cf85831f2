"""Producer ids that a folder without a metadata store has seen are not handed out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from floodmark.broker.adopted_producers import last_producer_id
from floodmark.records.batch import HEADER_BYTES, iter_headers, read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_dir import FoundPartition
from floodmark.testing.memory_files import MemoryFiles

LOG_DIR = Path("/logs")


def written(topic: str, *, producer_id: int, value: bytes, clean: bool) -> int:
    """The last producer id in a folder with one record of this producer."""
    files = MemoryFiles()
    log = PartitionLog.open(files, LOG_DIR / f"{topic}-0", LogConfig(), now_ms=1)
    identity: dict[str, Any] = (
        {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        if producer_id >= 0
        else {}
    )
    batch = encode_batch([Record(0, 1, b"k", value, [])], **identity)
    log.append(batch, read_header(batch), 0, 1)
    log.close(1, clean=clean)
    return last_producer_id(files, [FoundPartition(topic, 0, None, LOG_DIR)])


@pytest.mark.parametrize("clean", [True, False])
def test_the_id_of_a_producer_is_found_however_the_broker_ended(clean: bool) -> None:
    assert written("t", producer_id=41, value=b"v", clean=clean) == 41


def test_a_folder_without_producers_has_none() -> None:
    assert written("t", producer_id=-1, value=b"v", clean=True) == -1


def test_the_id_of_a_transaction_that_wrote_nothing_is_found() -> None:
    value = b"\x00\x00" + (97).to_bytes(8, "big") + bytes(20)
    assert written("__transaction_state", producer_id=-1, value=value, clean=True) == 97


@pytest.mark.parametrize("padding_bytes", [20, 3_000_000])
def test_a_damaged_record_hides_no_other(padding_bytes: int) -> None:
    files = MemoryFiles()
    folder = LOG_DIR / "__transaction_state-0"
    log = PartitionLog.open(files, folder, LogConfig(), now_ms=1)
    for producer_id in (96, 98, 97):
        value = b"\x00\x00" + producer_id.to_bytes(8, "big") + bytes(padding_bytes)
        batch = encode_batch([Record(0, 1, b"k", value, [])])
        log.append(batch, read_header(batch), 0, 1)
    log.close(1)
    found = [FoundPartition("__transaction_state", 0, None, LOG_DIR)]
    assert last_producer_id(files, found) == 98
    segment = log.segments[0].path
    _, (second, _), _ = iter_headers(files.read_file(segment))
    files.flip_bit(segment, second + HEADER_BYTES, 2)
    assert last_producer_id(files, found) == 97


def test_a_torn_end_is_left_to_recovery() -> None:
    files = MemoryFiles()
    log = PartitionLog.open(files, LOG_DIR / "t-0", LogConfig(), now_ms=1)
    for sequence in range(2):
        batch = encode_batch(
            [Record(0, 1, b"k", b"v", [])],
            producer_id=41 + sequence,
            producer_epoch=0,
            base_sequence=0,
        )
        log.append(batch, read_header(batch), 0, 1)
    log.close(1, clean=False)
    segment = files.open(log.segments[0].path)
    segment.truncate(segment.size() - 1)
    assert last_producer_id(files, [FoundPartition("t", 0, None, LOG_DIR)]) == 41
