"""Producer ids that a folder without a metadata store has seen are not handed out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.broker.adopted_producers import last_producer_id
from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import FoundPartition
from floodmark.storage.partition_log import PartitionLog
from floodmark.testing.memory_files import MemoryFiles

LOG_DIR = Path("/logs")


def written(topic: str, *, producer_id: int, value: bytes, clean: bool) -> int:
    """The last producer id in a folder with one record of this producer."""
    files = MemoryFiles()
    log = PartitionLog.open(files, LOG_DIR / f"{topic}-0", LogConfig(), now_ms=1)
    identity = (
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
