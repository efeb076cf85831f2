"""A new leader's epoch: known at once, on the disk with its first record."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from floodmark.records.record import Record, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication import leading
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.storage.checkpoints import read_pairs
from floodmark.storage.log.leader_epochs import FILE_NAME
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles
from floodmark.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
DIRECTORY = Path("/logs/t-0")


def replica_on(files: MemoryFiles) -> Replica:
    log = PartitionLog.open(files, DIRECTORY, LogConfig(), now_ms=NOW_MS)
    core = Partition(1, log_end_offset=log.log_end_offset, high_watermark=0)
    return Replica(core, log, UUID(int=1), ProduceRules(), 1)


def lead(replica: Replica, leader_epoch: int) -> None:
    replica.lead_or_follow(Leadership(1, leader_epoch, leader_epoch, (1,), (1,)), now_ms=0)


def append(replica: Replica) -> ErrorCode:
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
    return leading.append(replica, memoryview(batch), ACKS_ALL, NOW_MS).error_code


def test_a_full_disk_does_not_keep_a_leader_from_leading() -> None:
    files = MemoryFiles()
    replica = replica_on(files)
    files.faults.space_bytes = 0
    lead(replica, 3)
    assert replica.core.is_leader
    assert replica.log.end_offset_for_epoch(3) == (3, 0)
    files.faults.space_bytes = None
    assert append(replica) is ErrorCode.NONE
    assert read_pairs(files, DIRECTORY / FILE_NAME) == [(3, 0)]


def test_an_epoch_is_written_with_its_first_record_and_no_more_with_the_next() -> None:
    files = MemoryFiles()
    replica = replica_on(files)
    lead(replica, 3)
    lead(replica, 4)
    append(replica)
    assert read_pairs(files, DIRECTORY / FILE_NAME) == [(4, 0)]
    operations = files.operations
    append(replica)
    assert files.operations == operations + 1


def test_an_epoch_without_records_ends_where_the_next_begins() -> None:
    replica = replica_on(MemoryFiles())
    lead(replica, 3)
    append(replica)
    lead(replica, 5)
    append(replica)
    assert replica.log.end_offset_for_epoch(3) == (3, 1)
    assert replica.log.end_offset_for_epoch(4) == (3, 1)
    assert replica.log.end_offset_for_epoch(5) == (5, 2)
