"""A sync that ends late: it counts only in the leader epoch in which it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from floodmark.records.record import Record, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication.follower import Append
from floodmark.replication.following import append_as_follower, next_fetch
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles
from floodmark.testing.virtual_clock import VirtualClock

NOW_MS = 1_700_000_000_000
REPLICAS = (1, 2)


class SlowDisk:
    """Work in the background ends when the test says so."""

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        raise AssertionError("nothing waits in these tests")

    def run(self, work: Callable[[], Any], done: Callable[[Any], None], failed: Any) -> None:
        self._asked.append(lambda: done(work()))

    async def drain(self) -> None:
        pass

    def finish(self) -> None:
        self._asked.pop(0)()


class Bench:
    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.files = files or MemoryFiles()
        self.disk = SlowDisk()
        self.replicas = ReplicaManager(VirtualClock(), self.disk, lambda *_: None)
        config = LogConfig(flush_messages=1)
        log = PartitionLog.open(self.files, Path("/logs/t-0"), config, now_ms=NOW_MS, clean=False)
        core = Partition(1, log_end_offset=log.log_end_offset, high_watermark=0)
        self.replica = Replica(core, log, UUID(int=1), ProduceRules(), 1)
        self.replicas.add(self.replica)

    def decide(self, leader: int, leader_epoch: int, isr: tuple[int, ...] = REPLICAS) -> None:
        leadership = Leadership(leader, leader_epoch, leader_epoch, isr, REPLICAS)
        self.replicas.lead_or_follow(self.replica, leadership)

    def append(self) -> None:
        self.replicas.append(("t", 0), memoryview(batch()), 1)


def batch(base_offset: int = 0) -> bytearray:
    return encode_batch([Record(0, NOW_MS, b"k", b"v", [])], base_offset=base_offset)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_sync_moves_the_high_watermark_of_the_leader_that_asked_for_it(bench: Bench) -> None:
    bench.decide(1, 4, isr=(1,))
    bench.append()
    assert bench.replica.core.high_watermark == 0
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 1


def test_a_late_sync_of_a_former_leader_moves_nothing(bench: Bench) -> None:
    bench.decide(1, 4, isr=(1,))
    bench.append()
    bench.decide(2, 5)
    bench.replica.truncated()
    end_offset = bench.replica.core.log_end_offset
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 0
    assert bench.replica.core.log_end_offset == end_offset


def test_a_leader_again_waits_for_a_sync_of_its_new_epoch(bench: Bench) -> None:
    bench.decide(1, 4, isr=(1,))
    bench.append()
    bench.decide(1, 6, isr=(1,))
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 0
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 1


def test_a_follower_fetches_on_when_what_it_copied_is_synced(bench: Bench) -> None:
    """To fetch at an offset tells the leader that all before it is safe."""
    bench.decide(2, 5)
    first = next_fetch(bench.replica)
    assert first is not None
    append_as_follower(bench.replica, batch(), Append(1, 0), NOW_MS)
    bench.replicas.copied(bench.replica)
    assert next_fetch(bench.replica) is None
    bench.disk.finish()
    following = next_fetch(bench.replica)
    assert following is not None
    assert following.fetch_offset == 1


def test_the_leaders_log_start_is_adopted_with_the_sync_of_what_came_with_it(bench: Bench) -> None:
    """So a log that starts inside a batch never shows what was deleted."""
    bench.decide(2, 5)
    records = [Record(offset, NOW_MS, b"k", b"v", []) for offset in range(3)]
    append_as_follower(bench.replica, encode_batch(records), Append(3, 2), NOW_MS)
    bench.replicas.copied(bench.replica)
    assert bench.replica.core.high_watermark == 0
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 3
    assert bench.replica.log.log_start_offset == 2


def test_what_an_unclean_stop_left_unsynced_does_not_count_before_it_is_synced() -> None:
    """A kill leaves it in the page cache, where a power loss would still take it."""
    before = Bench()
    before.decide(1, 4, isr=(1,))
    before.append()
    bench = Bench(before.files)
    bench.decide(1, 5, isr=(1,))
    assert bench.replica.log.log_end_offset == 1
    assert bench.replica.core.high_watermark == 0
    bench.disk.finish()
    assert bench.replica.core.high_watermark == 1
