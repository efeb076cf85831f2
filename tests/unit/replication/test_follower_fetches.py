"""A follower's fetch at its leader: what counts as progress and what does not."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from floodmark.records.record import Record, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication import leading
from floodmark.replication.follower import FollowerFetch
from floodmark.replication.outcomes import ACKS_ALL, Divergence
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles
from floodmark.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000


@pytest.fixture
def leader() -> Replica:
    """Leads in epoch 4 with three records; replica 2 is in sync."""
    log = PartitionLog.open(MemoryFiles(), Path("/logs/t-0"), LogConfig(), now_ms=NOW_MS)
    core = Partition(1, log_end_offset=0, high_watermark=0)
    replica = Replica(core, log, UUID(int=1), ProduceRules(), 1)
    replica.lead_or_follow(Leadership(1, 4, 0, (1, 2), (1, 2)), now_ms=0)
    for _ in range(3):
        batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
        leading.append(replica, memoryview(batch), ACKS_ALL, NOW_MS)
    return replica


def fetch(leader: Replica, *, leader_epoch: int = 4, offset: int = 3, last_epoch: int = 4):
    position = FollowerFetch(1, leader_epoch, offset, last_epoch)
    return leading.read_for_follower(leader, 2, 22, position, 1 << 20, now_ms=1)


def test_a_follower_reads_above_the_high_watermark_and_its_fetch_moves_it(leader: Replica) -> None:
    first = fetch(leader, offset=0, last_epoch=-1)
    assert first.records is not None
    assert first.high_watermark == 0
    assert fetch(leader, offset=3).high_watermark == 3
    assert leader.core.high_watermark == 3


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_reign_is_no_progress(
    leader: Replica, leader_epoch: int, error: ErrorCode
) -> None:
    assert fetch(leader, leader_epoch=leader_epoch).error_code is error
    assert leader.core.high_watermark == 0


def test_a_fetch_of_a_diverged_log_is_no_progress(leader: Replica) -> None:
    outcome = fetch(leader, offset=3, last_epoch=2)
    assert outcome.divergence == Divergence(2, 0)
    assert leader.core.high_watermark == 0


def test_a_fetch_beyond_the_leaders_end_is_no_progress(leader: Replica) -> None:
    assert fetch(leader, offset=5).divergence == Divergence(4, 3)
    assert fetch(leader, offset=5, last_epoch=-1).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.core.high_watermark == 0
