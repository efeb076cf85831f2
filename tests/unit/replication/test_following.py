"""Followers copy what their leader has: real replica managers, fetchers and the Fetch API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchRequest
from kit.replica_cluster import TOPIC, ReplicaCluster
from kit.waiting import eventually


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster()
    yield cluster
    await cluster.close()


async def test_records_reach_all_followers(cluster: ReplicaCluster) -> None:
    cluster.create()
    for number in range(5):
        cluster.nodes[1].append(b"%d" % number)
    await eventually(lambda: all(node.end() == 5 for node in cluster.nodes.values()), 5)
    await eventually(lambda: cluster.nodes[1].committed() == 5, 5)
    for node in cluster.nodes.values():
        assert node.values() == [b"0", b"1", b"2", b"3", b"4"]
        assert node.replica().log.leader_epochs.epochs == [0]


async def test_the_high_watermark_reaches_followers_with_the_next_records(
    cluster: ReplicaCluster,
) -> None:
    """And not by an answer of its own, which would double the fetches of a busy partition."""
    cluster.create()
    for _ in range(3):
        assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE
    follower = cluster.nodes[2]
    await eventually(lambda: follower.committed() == 2, 5)
    assert follower.end() == 3
    # One to begin with and one after each record.
    assert len(follower.asked) == 4


async def test_a_write_is_acknowledged_when_all_in_sync_replicas_have_it(
    cluster: ReplicaCluster,
) -> None:
    cluster.create()
    held = asyncio.Event()

    async def hold(message: Any) -> None:
        await held.wait()

    assert await asyncio.wait_for(cluster.nodes[1].produce(b"first"), 5) is ErrorCode.NONE
    cluster.nodes[3].on_request = hold
    second = cluster.nodes[1].produce(b"second")
    await eventually(lambda: cluster.nodes[2].replica().log.log_end_offset == 2, 5)
    assert not second.done()
    assert cluster.nodes[1].replica().core.high_watermark == 1
    held.set()
    assert await asyncio.wait_for(second, 5) is ErrorCode.NONE


async def test_a_diverged_follower_truncates_by_leader_epoch(cluster: ReplicaCluster) -> None:
    cluster.create()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"common"), 5) is ErrorCode.NONE
    # Broker 1 is cut off, appends what nobody gets, and comes back as a follower.
    cluster.nodes[1].is_down = True
    cluster.nodes[1].append(b"lost")
    cluster.nodes[1].append(b"lost, too")
    cluster.lead(2, isr=(2, 3), tell=(2, 3))
    assert await asyncio.wait_for(cluster.nodes[2].produce(b"kept"), 5) is ErrorCode.NONE
    cluster.nodes[1].is_down = False
    cluster.tell(0, [1])
    await eventually(lambda: cluster.nodes[1].values() == [b"common", b"kept"], 5)
    epochs = cluster.nodes[1].replica().log.leader_epochs
    assert (epochs.epochs, epochs.start_offsets) == ([0, 1], [0, 1])


async def test_a_follower_behind_the_leaders_log_start_begins_again_there(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(isr=(1, 2))
    cluster.nodes[3].is_down = True
    for number in range(6):
        cluster.nodes[1].append(b"%d" % number)
    await eventually(lambda: cluster.nodes[1].replica().core.high_watermark == 6, 5)
    cluster.nodes[1].replica().log.advance_log_start(4)
    cluster.nodes[3].is_down = False
    await eventually(lambda: cluster.nodes[3].values() == [b"4", b"5"], 5)
    assert cluster.nodes[3].replica().log.log_start_offset == 4


async def test_a_log_that_starts_inside_a_batch_is_copied_with_the_whole_batch(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(isr=(1, 2))
    cluster.nodes[3].is_down = True
    cluster.nodes[1].append_all([b"0", b"1", b"2"])
    await eventually(lambda: cluster.nodes[1].replica().core.high_watermark == 3, 5)
    cluster.nodes[1].replica().log.advance_log_start(2)
    cluster.nodes[3].is_down = False
    await eventually(lambda: cluster.nodes[3].values() == [b"2"], 5)
    assert cluster.nodes[3].replica().log.log_start_offset == 2


async def test_a_diverged_log_that_ends_where_the_leaders_starts_inside_a_batch_starts_over(
    cluster: ReplicaCluster,
) -> None:
    """The leader has forgotten the epochs below its log start: it cannot see the divergence."""
    cluster.create()
    leader, diverged = cluster.nodes[1], cluster.nodes[3]
    diverged.is_down = True
    cluster.lead(3, isr=(3,), tell=(3,))
    for value in (b"lost", b"lost, too"):
        diverged.append(value)
    cluster.lead(1, isr=(1, 2), tell=(1, 2))
    leader.append_all([b"0", b"1", b"2"])
    leader.append(b"3")
    await eventually(lambda: leader.replica().core.high_watermark == 4, 5)
    leader.replica().log.advance_log_start(2)
    diverged.is_down = False
    cluster.tell(0, [3])
    await eventually(lambda: diverged.values() == [b"2", b"3"], 5)
    mine, theirs = diverged.replica().log, leader.replica().log
    assert mine.log_start_offset == 2
    copied, original = (log.read(2, 1 << 20, end_offset=4) for log in (mine, theirs))
    assert copied is not None and original is not None
    assert copied.read() == original.read()
    assert mine.leader_epochs.epochs == theirs.leader_epochs.epochs
    # It is a replica like any other again.
    leader.append(b"4")
    await eventually(lambda: diverged.values() == [b"2", b"3", b"4"], 5)
    assert not diverged.failed


async def test_a_diverged_log_that_ends_where_the_leaders_starts_forgets_its_producers(
    cluster: ReplicaCluster,
) -> None:
    """A batch that only it had would be taken for a duplicate, acknowledged and lost."""
    cluster.create()
    leader, diverged = cluster.nodes[1], cluster.nodes[3]
    batch = encode_batch(
        [Record(0, 0, None, b"once", [])], producer_id=7, producer_epoch=0, base_sequence=0
    )
    diverged.is_down = True
    cluster.lead(3, tell=(3,))
    diverged.replicas.append((TOPIC, 0), memoryview(bytearray(batch)), ACKS_ALL)
    cluster.lead(1, isr=(1, 2), tell=(1, 2))
    leader.append(b"0")
    await eventually(lambda: leader.replica().core.high_watermark == 1, 5)
    leader.replica().log.advance_log_start(1)
    diverged.is_down = False
    cluster.tell(0, [3])
    await eventually(lambda: diverged.replica().log.log_start_offset == 1, 5)
    cluster.lead(3)
    # Leading waits for the end of the truncation.
    await eventually(lambda: diverged.replica().core.is_leader, 5)
    again = diverged.replicas.append((TOPIC, 0), memoryview(bytearray(batch)), ACKS_ALL)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
    await eventually(lambda: leader.values() == [b"once"], 5)


async def test_records_that_were_deleted_stay_so_under_a_leader_that_has_them(
    cluster: ReplicaCluster,
) -> None:
    """A replica begins at a log start inside a batch; the next leader does not know that start."""
    cluster.create(isr=(1, 2))
    newcomer = cluster.nodes[3]
    newcomer.is_down = True
    cluster.nodes[1].append_all([b"0", b"1", b"2"])
    await eventually(lambda: cluster.nodes[2].end() == 3, 5)
    log = newcomer.replica().log
    newcomer.logs.truncate_fully_and_start_at(log, 2, newcomer.clock.now_ms())
    newcomer.replica().truncated()
    newcomer.is_down = False
    cluster.lead(2, isr=(1, 2))
    await eventually(lambda: newcomer.end() == 3, 5)
    assert newcomer.values() == [b"2"]
    assert cluster.nodes[2].replica().log.log_start_offset == 0


async def test_a_leader_that_does_not_know_its_epoch_yet_is_asked_again(
    cluster: ReplicaCluster,
) -> None:
    cluster.create()
    cluster.lead(2, tell=(1, 3))
    asked = len(cluster.nodes[3].asked)
    await eventually(lambda: len(cluster.nodes[3].asked) > asked + 1, 5)
    cluster.tell(0, [2])
    assert await asyncio.wait_for(cluster.nodes[2].produce(b"v"), 5) is ErrorCode.NONE


async def test_an_answer_of_a_leader_that_leads_no_more_is_dropped(
    cluster: ReplicaCluster,
) -> None:
    cluster.create()
    arrived, released = asyncio.Event(), asyncio.Event()

    async def hold(answer: Any) -> None:
        if answer.responses and answer.responses[0].partitions[0].records:
            arrived.set()
            await released.wait()

    cluster.nodes[3].on_answer = hold
    cluster.nodes[1].append(b"of the old leader")
    await asyncio.wait_for(arrived.wait(), 5)
    cluster.nodes[3].on_answer = None
    cluster.nodes[2].replicas.take_offline([(TOPIC, 0)])
    cluster.lead(3, isr=(3,), tell=(3,))
    released.set()
    cluster.nodes[3].append(b"of the new leader")
    await asyncio.sleep(0.05)
    assert cluster.nodes[3].values() == [b"of the new leader"]


async def test_idle_partitions_are_not_named_again(cluster: ReplicaCluster) -> None:
    cluster.create(partitions=20)
    for partition in range(20):
        assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", partition), 5) == 0
    await eventually(lambda: cluster.nodes[2].end(19) == 1, 5)
    asked = len(cluster.nodes[2].asked)
    for _ in range(3):
        assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", 7), 5) == 0
    requests = cluster.nodes[2].asked[asked:]
    assert requests
    named = {
        partition.partition
        for request in requests
        for topic in request.topics
        for partition in topic.partitions
    }
    assert named == {7}


async def test_a_session_that_the_leader_has_forgotten_begins_again(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(partitions=2)
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE
    cluster.nodes[1].services.fetch_sessions._sessions.clear()
    for partition in (0, 1):
        produced = cluster.nodes[1].produce(b"v", partition)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE


async def test_a_leader_that_is_gone_for_a_while_is_found_again(cluster: ReplicaCluster) -> None:
    cluster.create()
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE
    cluster.nodes[1].is_down = True
    produced = cluster.nodes[1].produce(b"v")
    await asyncio.sleep(0.1)
    assert not produced.done()
    cluster.nodes[1].is_down = False
    assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE


async def test_a_newcomer_does_not_wait_for_the_long_poll_of_the_others(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(partitions=2)
    cluster.lead(2, 1)
    for leader, partition in ((1, 0), (2, 1)):
        produced = cluster.nodes[leader].produce(b"v", partition)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    # All fetches wait now, for 20 s; broker 1 gets the other partition, too.
    cluster.lead(1, 1)
    for _ in range(5):
        produced = cluster.nodes[1].produce(b"v", 1)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE
    assert cluster.nodes[3].fetchers.partitions_of(1) == 2
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v", 0), 5) is ErrorCode.NONE
    for _ in range(3):
        produced = cluster.nodes[1].produce(b"v", 1)
        assert await asyncio.wait_for(produced, 5) is ErrorCode.NONE


async def test_a_partition_that_goes_is_fetched_no_more(cluster: ReplicaCluster) -> None:
    cluster.create(partitions=2)
    assert cluster.nodes[2].fetchers.partitions_of(1) == 2
    cluster.nodes[2].replicas.remove((TOPIC, 0))
    assert cluster.nodes[2].fetchers.partitions_of(1) == 1
    cluster.lead(2, 1)
    assert cluster.nodes[2].fetchers.partitions_of(1) == 0
    assert cluster.nodes[3].fetchers.partitions_of(2) == 1


async def test_a_leader_that_is_named_later_in_the_same_epoch_is_followed(
    cluster: ReplicaCluster,
) -> None:
    """A broker that starts knows the epoch from the store, and the leader from the controller."""
    cluster.create()
    decided = cluster.decided[0]
    node, replica = cluster.nodes[2], cluster.nodes[2].replica()
    node.replicas.lead_or_follow(replica, replace(decided, leader=-1))
    assert node.fetchers.partitions_of(1) == 0
    node.replicas.lead_or_follow(replica, decided)
    assert node.fetchers.partitions_of(1) == 1
    assert await asyncio.wait_for(cluster.nodes[1].produce(b"v"), 5) is ErrorCode.NONE


async def test_fetches_name_broker_and_leader_epochs(cluster: ReplicaCluster) -> None:
    cluster.create()
    await eventually(lambda: cluster.nodes[2].asked, 5)
    request: FetchRequest = cluster.nodes[2].asked[0]
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (2, 102)
    (partition,) = request.topics[0].partitions
    assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (0, -1)


async def test_followers_without_acks_all_do_not_hold_up_the_leader(
    cluster: ReplicaCluster,
) -> None:
    cluster.create(min_in_sync_replicas=2, isr=(1,))
    for node in (cluster.nodes[2], cluster.nodes[3]):
        node.is_down = True
    assert cluster.nodes[1].append(b"v", acks=1).error_code is ErrorCode.NONE
    refused = cluster.nodes[1].append(b"v", acks=ACKS_ALL)
    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
