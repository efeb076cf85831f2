"""What goes wrong while a follower copies: it costs one partition its turn, and nobody else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest

from floodmark.records.batch import HEADER_BYTES
from floodmark.replication import following
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.follower import BackOff, FollowerAnswer, FollowerFetch
from floodmark.replication.outcomes import Isolation
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.wire.errors import ErrorCode
from kit.replica_cluster import TOPIC, ReplicaCluster
from kit.waiting import eventually


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster(brokers=2)
    yield cluster
    await cluster.close()


async def test_a_batch_that_was_damaged_on_the_way_is_fetched_again(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(partitions=2)
    damaged = 0

    async def damage(answer: Any) -> None:
        nonlocal damaged
        for topic in answer.responses:
            for data in topic.partitions:
                if data.partition_index == 0 and data.records and damaged < 2:
                    damaged += 1
                    data.records = bytearray(data.records)
                    data.records[HEADER_BYTES] ^= 1

    cluster.nodes[2].on_answer = damage
    first = cluster.nodes[1].produce(b"v", 0)
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", 1), 5) is ErrorCode.NONE
    assert await asyncio.wait_for(first, 5) is ErrorCode.NONE
    assert damaged == 2
    assert cluster.nodes[2].failed == []


async def test_a_failing_disk_takes_its_partition_and_the_others_go_on(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create(partitions=2)
    broken, append = cluster.nodes[2].replica(0).log, PartitionLog.append_as_follower

    def fail(log: PartitionLog, *arguments: Any) -> None:
        if log is broken:
            raise OSError(errno.EIO, "the disk is broken")
        append(log, *arguments)

    monkeypatch.setattr(PartitionLog, "append_as_follower", fail)
    cluster.nodes[1].append(b"v", 0)
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", 1), 5) is ErrorCode.NONE
    await eventually(lambda: cluster.nodes[2].failed, 5)
    assert cluster.nodes[2].replicas.is_offline((TOPIC, 0))
    assert cluster.nodes[2].fetchers.partitions_of(1) == 1


async def test_a_full_disk_of_a_follower_passes(cluster: ReplicaCluster) -> None:
    cluster.create()
    cluster.nodes[2].files.faults.space_bytes = 0
    produced = cluster.nodes[1].produce(b"v")
    await eventually(lambda: cluster.nodes[2].replicas.disk_full is not None, 5)
    assert not produced.done()
    cluster.nodes[2].files.faults.space_bytes = None
    assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    assert cluster.nodes[2].failed == []


async def test_a_follower_syncs_before_it_says_that_it_has_the_records(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(config=LogConfig(flush_messages=1))
    for number in range(3):
        produced = cluster.nodes[1].produce(b"%d" % number)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
        assert cluster.nodes[2].replica().log.recovery_point == number + 1


async def test_the_high_watermark_that_came_with_records_counts_once_they_are_synced(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(config=LogConfig(flush_messages=1), isr=(1,))
    cluster.nodes[2].is_down = True
    cluster.nodes[1].append(b"v")
    await eventually(lambda: cluster.nodes[1].replica().core.high_watermark == 1, 5)
    cluster.nodes[2].is_down = False
    await eventually(lambda: cluster.nodes[2].committed() == 1, 5)


async def test_who_leads_is_decided_after_a_truncation_that_is_under_way(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a new leader would append to the log that a thread cuts."""
    cluster.create()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"common"), 5) is ErrorCode.NONE
    loop, begun, goes_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    truncate = LogManager.truncate

    def slowly(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()
        return truncate(*arguments)

    monkeypatch.setattr(LogManager, "truncate", slowly)
    cluster.nodes[2].is_down = True
    cluster.nodes[1].append(b"lost")
    cluster.lead(2, isr=(2,), tell=[2])
    cluster.nodes[2].append(b"kept")
    cluster.nodes[2].is_down = False
    cluster.tell(0, [1])
    await asyncio.wait_for(begun.wait(), 5)
    cluster.lead(1, isr=(1, 2), tell=[1])
    replica = cluster.nodes[1].replica()
    assert not replica.core.is_leader
    refused = cluster.nodes[1].append(b"too early")
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    goes_on.set()
    await eventually(lambda: replica.core.is_leader, 5)
    assert cluster.nodes[1].values() == [b"common"]
    assert replica.log.leader_epochs.epochs == [0, 2]


async def test_nothing_is_fetched_while_a_thread_cuts_the_log(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has cut the log and its epochs, and the loop does not know it yet: a fetch at the
    old end would leave a hole."""
    cluster.create()
    loop, cut, goes_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    truncate = LogManager.truncate

    def not_told_yet(*arguments: Any) -> Any:
        problems = truncate(*arguments)
        loop.call_soon_threadsafe(cut.set)
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()
        return problems

    monkeypatch.setattr(LogManager, "truncate", not_told_yet)
    cluster.nodes[2].is_down = True
    cluster.nodes[1].append(b"lost")
    cluster.lead(2, isr=(2,), tell=[2])
    cluster.nodes[2].append(b"kept")
    cluster.nodes[2].is_down = False
    cluster.tell(0, [1])
    await asyncio.wait_for(cut.wait(), 5)
    replica = cluster.nodes[1].replica()
    known_end, wanted = replica.core.log_end_offset, following.next_fetch(replica)
    late = FollowerFetch(2, replica.core.leadership.leader_epoch, 1, -1)
    step = following.decide(replica, late, FollowerAnswer(ErrorCode.NONE, 0))
    goes_on.set()
    assert (known_end, wanted) == (1, None)
    assert step == BackOff(ErrorCode.NONE)
    await eventually(lambda: cluster.nodes[1].values() == [b"kept"], 5)


async def test_a_partition_that_goes_while_its_log_is_cut_troubles_nobody(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create(partitions=2)
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"common"), 5) is ErrorCode.NONE
    truncate = LogManager.truncate
    loop = asyncio.get_running_loop()
    removed = asyncio.Event()

    def after_the_removal(logs: LogManager, *arguments: Any) -> Any:
        asyncio.run_coroutine_threadsafe(removed.wait(), loop).result()
        return truncate(logs, *arguments)

    monkeypatch.setattr(LogManager, "truncate", after_the_removal)
    cluster.nodes[2].is_down = True
    cluster.nodes[1].append(b"lost")
    cluster.lead(2, isr=(2,), tell=[2])
    cluster.nodes[2].append(b"kept")
    cluster.nodes[2].is_down = False
    cluster.tell(0, [1])
    await eventually(lambda: cluster.nodes[1].replica().log.is_truncating, 5)
    cluster.nodes[1].replicas.remove((TOPIC, 0))
    cluster.nodes[1].logs.get(TOPIC, 0).sync.close_files()
    removed.set()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", 1), 5) is ErrorCode.NONE
    assert cluster.nodes[1].failed == []


async def test_a_decision_that_came_during_a_truncation_is_told_when_it_counts(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinators load the partitions that a broker leads: they must hear of it then, too."""
    cluster.create()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"common"), 5) is ErrorCode.NONE
    truncate = LogManager.truncate
    loop = asyncio.get_running_loop()
    decided = asyncio.Event()

    def after_the_decision(logs: LogManager, *arguments: Any) -> Any:
        asyncio.run_coroutine_threadsafe(decided.wait(), loop).result()
        return truncate(logs, *arguments)

    monkeypatch.setattr(LogManager, "truncate", after_the_decision)
    told: list[bool] = []
    node = cluster.nodes[1]
    node.replicas.on_late_decision = lambda: told.append(node.replica().core.is_leader)
    cluster.nodes[2].is_down = True
    node.append(b"lost")
    cluster.lead(2, isr=(2,), tell=[2])
    cluster.nodes[2].append(b"kept")
    cluster.nodes[2].is_down = False
    cluster.tell(0, [1])
    await eventually(lambda: node.replica().log.is_truncating, 5)
    cluster.lead(1, isr=(1,))
    assert not node.replica().core.is_leader
    decided.set()
    await eventually(lambda: told, 5)
    assert told == [True]


async def test_a_fetch_that_waits_says_nothing_new_about_its_follower(
    cluster: ReplicaCluster,
) -> None:
    """It may have died since it asked: read again, the fetch would count as a new one."""
    cluster.create()
    cluster.nodes[2].is_down = True
    leader = cluster.nodes[1]
    target = FetchTarget(TOPIC, 0, 0, 1 << 20, 0)
    limits = FetchLimits(1, 1 << 20, 10_000, Isolation.READ_UNCOMMITTED, 2, 102)
    waiting = leader.replicas.fetch([((TOPIC, 0), target)], limits)
    progress = leader.replica().core.followers[2]
    asked_ms = progress.last_fetch_ms
    await asyncio.sleep(0.01)
    leader.append(b"v")
    (outcome,) = await waiting
    assert outcome.size_bytes > 0
    assert progress.last_fetch_ms == asked_ms
    assert progress.leader_end_at_last_fetch == 0
