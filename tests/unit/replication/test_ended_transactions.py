"""What a partition remembers of transactions that have ended, though nobody reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication.follower import Append
from floodmark.replication.following import append_as_follower
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.transaction_guards import Unguarded
from floodmark.testing.memory_files import MemoryFiles
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
KEY = ("t", 0)
TRANSACTIONS = 50
MARKER = EndTransactionMarker(ControlType.COMMIT, 0)
PRODUCER: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}


@pytest.fixture
def replica() -> Replica:
    log = PartitionLog.open(MemoryFiles(), Path("/logs/t-0"), LogConfig(), now_ms=NOW_MS)
    core = Partition(1, log_end_offset=0, high_watermark=0)
    return Replica(core, log, UUID(int=1), ProduceRules(), 1)


@pytest.fixture
def manager(replica: Replica) -> ReplicaManager:
    manager = ReplicaManager(VirtualClock(), None, lambda *_: None)
    manager.add(replica)
    return manager


def data(number: int, base_offset: int = 0) -> bytearray:
    return encode_batch(
        [Record(0, NOW_MS, b"k", b"v", [])],
        base_offset=base_offset,
        base_sequence=number,
        is_transactional=True,
        **PRODUCER,
    )


def marker(base_offset: int = 0) -> bytearray:
    return encode_marker(MARKER, timestamp_ms=NOW_MS, base_offset=base_offset, **PRODUCER)


def test_a_leader_forgets_them(manager: ReplicaManager, replica: Replica) -> None:
    manager.lead_or_follow(replica, Leadership(1, 1, 1, (1,), (1,)))
    for number in range(TRANSACTIONS):
        appended = manager.append(KEY, memoryview(data(number)), -1, Unguarded.NOT_CHECKED)
        assert appended.error_code is ErrorCode.NONE
        manager.append_own(KEY, marker())
    assert not replica.log.producers.unreplicated


def test_a_follower_forgets_them_once_they_are_replicated(
    manager: ReplicaManager, replica: Replica
) -> None:
    manager.lead_or_follow(replica, Leadership(2, 1, 1, (1, 2), (1, 2)))
    for number in range(TRANSACTIONS):
        end = replica.log.log_end_offset
        records = data(number, end) + marker(end + 1)
        append_as_follower(replica, records, Append(leader_high_watermark=end), NOW_MS)
    (last,) = replica.log.producers.unreplicated.values()
    assert last == replica.log.log_end_offset - 1
    assert replica.last_stable_offset == replica.core.high_watermark == end
