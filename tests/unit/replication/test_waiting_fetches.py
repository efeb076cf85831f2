"""Fetches of several partitions that wait: what ends the wait, and what they bring then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from floodmark.promise import Promise
from floodmark.records.record import Record, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication.background import LoopBackground
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.outcomes import Isolation, ReadOutcome
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
PARTITIONS = 4
BATCH = bytes(encode_batch([Record(0, NOW_MS, b"key", b"value", [])]))


class Bench:
    """A broker's partitions t-0 to t-3, all led by it."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.replicas = ReplicaManager(VirtualClock(), LoopBackground(executor), lambda *_: None)
        files = MemoryFiles()
        for number in range(PARTITIONS):
            log = PartitionLog.open(files, Path(f"/logs/t-{number}"), LogConfig(), now_ms=NOW_MS)
            core = Partition(1, log_end_offset=0, high_watermark=0)
            replica = Replica(core, log, UUID(int=1), ProduceRules(), 1)
            replica.lead_or_follow(Leadership(1, 0, 0, (1,), (1,)), now_ms=0)
            self.replicas.add(replica)

    def append(self, partition: int) -> None:
        outcome = self.replicas.append(("t", partition), memoryview(bytearray(BATCH)), 1)
        assert outcome.error_code is ErrorCode.NONE

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> Promise[list[ReadOutcome]]:
        targets = [
            (("t", partition), FetchTarget("t", partition, offset, max_bytes, leader_epoch))
            for partition, offset in offsets.items()
        ]
        limits = FetchLimits(min_bytes, max_bytes, 500, Isolation.READ_UNCOMMITTED)
        outcome = self.replicas.fetch(targets, limits)
        assert isinstance(outcome, Promise), "it did not wait"
        return outcome


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    with ThreadPoolExecutor(1) as executor:
        bench = Bench(executor)
        yield bench
        await bench.replicas.close()


def sizes(outcomes: list[ReadOutcome]) -> list[int]:
    return [outcome.size_bytes for outcome in outcomes]


async def test_the_partition_that_grows_is_read_and_the_others_are_told_as_they_were(
    bench: Bench,
) -> None:
    bench.append(1)
    waiting = bench.fetch({0: 0, 1: 1, 2: 0})
    bench.append(2)
    outcomes = await waiting
    assert sizes(outcomes) == [0, 0, len(BATCH)]
    assert [outcome.high_watermark for outcome in outcomes] == [0, 1, 1]


async def test_all_that_has_grown_counts_towards_the_minimum_and_is_read(bench: Bench) -> None:
    bench.append(0)
    waiting = bench.fetch({0: 0, 1: 0, 2: 0, 3: 0}, min_bytes=3 * len(BATCH))
    bench.append(2)
    assert len(bench.replicas.fetches) == 1
    bench.append(3)
    outcomes = await waiting
    assert sizes(outcomes) == [len(BATCH), 0, len(BATCH), len(BATCH)]
    assert [outcome.high_watermark for outcome in outcomes] == [1, 0, 1, 1]


async def test_the_limit_on_bytes_holds_after_the_wait(bench: Bench) -> None:
    waiting = bench.fetch({0: 0, 1: 0}, min_bytes=2 * len(BATCH), max_bytes=2 * len(BATCH))
    bench.append(1)
    bench.append(1)
    bench.append(1)
    assert sizes(await waiting) == [0, 2 * len(BATCH)]


async def test_at_the_deadline_comes_what_has_grown_meanwhile(bench: Bench) -> None:
    waiting = bench.fetch({0: 0, 1: 0}, min_bytes=1_000_000)
    bench.append(1)
    bench.replicas.fetches.expire_all()
    assert sizes(await waiting) == [0, len(BATCH)]


async def test_a_partition_that_does_not_exist_keeps_no_other_from_waiting(bench: Bench) -> None:
    # Java's consumer goes on asking for a deleted topic; answered at once, it asks without end.
    waiting = bench.fetch({0: 0, 99: 0})
    bench.append(0)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [outcome.error_code for outcome in await waiting] == [ErrorCode.NONE, missing]
    with pytest.raises(AssertionError, match="did not wait"):
        bench.fetch({99: 0, 98: 0})


async def test_a_partition_on_other_brokers_only_ends_the_wait(bench: Bench) -> None:
    bench.replicas.is_in_cluster = lambda key: key == ("t", 99)
    with pytest.raises(AssertionError, match="did not wait"):
        bench.fetch({0: 0, 99: 0})
    assert bench.replicas.missing(("t", 99)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.replicas.missing(("t", 98)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_is_taken_away_ends_the_wait_with_its_error(bench: Bench) -> None:
    waiting = bench.fetch({0: 0, 1: 0})
    bench.replicas.remove(("t", 1))
    outcomes = await waiting
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_new_reign_ends_the_wait_of_who_knows_only_the_old_one(bench: Bench) -> None:
    waiting = bench.fetch({0: 0, 1: 0}, leader_epoch=0)
    replica = bench.replicas.find(("t", 1))
    assert replica is not None
    replica.lead_or_follow(Leadership(1, 1, 1, (1,), (1,)), now_ms=0)
    bench.replicas.changed(("t", 1))
    outcomes = await waiting
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
    ]


async def test_records_found_before_the_wait_are_read_anew_after_it(bench: Bench) -> None:
    """Their segment may be gone by then: a slice that was kept would point into nothing."""
    bench.append(0)
    replica = bench.replicas.find(("t", 0))
    assert replica is not None
    waiting = bench.fetch({0: 0, 1: 0}, min_bytes=2 * len(BATCH))
    replica.log.advance_log_start(1)
    bench.append(1)
    bench.append(1)
    outcomes = await waiting
    assert outcomes[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_of_one_partition_too_little_does_not_end_the_wait_and_comes_at_the_deadline(
    bench: Bench,
) -> None:
    waiting = bench.fetch({0: 0}, min_bytes=3 * len(BATCH))
    bench.append(0)
    bench.append(0)
    assert len(bench.replicas.fetches) == 1
    bench.replicas.fetches.expire_all()
    assert sizes(await waiting) == [2 * len(BATCH)]


async def test_of_one_partition_enough_ends_the_wait(bench: Bench) -> None:
    waiting = bench.fetch({0: 0}, min_bytes=2 * len(BATCH))
    bench.append(0)
    bench.append(0)
    assert sizes(await waiting) == [2 * len(BATCH)]


async def test_of_one_partition_an_error_ends_the_wait(bench: Bench) -> None:
    waiting = bench.fetch({0: 0}, min_bytes=1_000_000)
    bench.replicas.remove(("t", 0))
    (outcome,) = await waiting
    assert outcome.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
