"""AddPartitionsToTxn and EndTxn in both transaction versions, with their markers."""

from __future__ import annotations

import asyncio
import gc

import pytest

from floodmark.coordinators.ports import NotCoordinator
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions import marker_channel
from floodmark.coordinators.transactions.states import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
)
from floodmark.coordinators.transactions.transaction import MAX_PRODUCER_EPOCH
from floodmark.promise import Promise
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kit.transactions import (
    FIRST_VERSION,
    OTHER_BROKER_ID,
    SECOND_VERSION,
    TransactionBench,
    until,
)

HERE = ("topic", 0)
THERE = ("topic", 1)


async def test_a_commit_marks_every_partition_and_completes(bench: TransactionBench) -> None:
    producer = await bench.start()
    assert await bench.add(producer, HERE) is ErrorCode.NONE
    assert await bench.add(producer, THERE) is ErrorCode.NONE
    assert bench.transaction().state is ONGOING
    await bench.end(producer)
    assert {(topic, partition) for topic, partition, _ in bench.markers.written} == {HERE, THERE}
    assert all(marker.committed for _, _, marker in bench.markers.written)
    assert bench.transaction().state is COMPLETE_COMMIT
    assert bench.transaction().partitions == frozenset()


async def test_markers_carry_the_epoch_of_the_coordinator(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    await bench.end(producer)
    assert bench.markers.written[0][2].coordinator_epoch == bench.log.current_leader_epoch


async def test_version_2_ends_every_transaction_with_a_new_epoch(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    identity = await bench.end(producer)
    assert identity == (ErrorCode.NONE, producer.producer_id, producer.producer_epoch + 1)
    assert bench.markers.written[0][2].producer_epoch == producer.producer_epoch + 1
    assert await bench.add(producer, HERE) is ErrorCode.PRODUCER_FENCED


async def test_version_1_keeps_the_epoch(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE, version=FIRST_VERSION)
    assert await bench.end(producer, version=FIRST_VERSION) == (ErrorCode.NONE, -1, -1)
    assert bench.markers.written[0][2].producer_epoch == producer.producer_epoch
    assert await bench.add(producer, HERE, version=FIRST_VERSION) is ErrorCode.NONE


async def test_the_last_epoch_ends_with_a_new_producer_id(bench: TransactionBench) -> None:
    started = await bench.start()
    bench.use_epochs(MAX_PRODUCER_EPOCH - 1)
    producer = Producer(started.producer_id, MAX_PRODUCER_EPOCH - 1)
    await bench.add(producer, HERE)
    identity = await bench.end(producer)
    assert identity.error_code is ErrorCode.NONE
    assert identity.producer_id != started.producer_id
    assert identity.producer_epoch == 0
    marker = bench.markers.written[0][2]
    assert (marker.producer_id, marker.producer_epoch) == (started.producer_id, MAX_PRODUCER_EPOCH)
    assert await bench.end(producer) == identity, "a repeat learns the new id again"


N, ITS, PF, BUMP = (
    (ErrorCode.NONE, 0),
    (ErrorCode.INVALID_TXN_STATE, None),
    (ErrorCode.PRODUCER_FENCED, None),
    (ErrorCode.NONE, 1),
)


@pytest.mark.parametrize(
    ("before", "committed", "repeat", "expected"),
    [
        ("empty", False, True, PF),
        ("empty", False, False, BUMP),
        ("empty", True, True, PF),
        ("empty", True, False, ITS),
        ("aborted", False, True, N),
        ("aborted", False, False, BUMP),
        ("aborted", True, True, ITS),
        ("aborted", True, False, ITS),
        ("committed", False, True, ITS),
        ("committed", False, False, BUMP),
        ("committed", True, True, N),
        ("committed", True, False, ITS),
    ],
)
async def test_version_2_tells_repeats_from_new_requests_by_their_epoch(
    bench: TransactionBench,
    before: str,
    committed: bool,
    repeat: bool,
    expected: tuple[ErrorCode, int | None],
) -> None:
    producer = await bench.start()
    if before == "empty":
        producer = await bench.start()
    else:
        await bench.add(producer, HERE)
        await bench.end(producer, committed=before == "committed")
    current = bench.transaction().producer_epoch
    sent = Producer(producer.producer_id, current - 1 if repeat else current)
    error_code, bumps = expected
    identity = await bench.end(sent, committed=committed)
    assert identity.error_code is error_code
    if bumps is not None:
        assert identity.producer_epoch == current + bumps
    assert bench.transaction().producer_epoch == current + (bumps or 0)


@pytest.mark.parametrize(
    ("before", "committed", "error_code"),
    [
        ("empty", True, ErrorCode.INVALID_TXN_STATE),
        ("empty", False, ErrorCode.INVALID_TXN_STATE),
        ("committed", True, ErrorCode.NONE),
        ("committed", False, ErrorCode.INVALID_TXN_STATE),
        ("aborted", True, ErrorCode.INVALID_TXN_STATE),
        ("aborted", False, ErrorCode.NONE),
    ],
)
async def test_version_1_ends_only_what_was_begun(
    bench: TransactionBench, before: str, committed: bool, error_code: ErrorCode
) -> None:
    producer = await bench.start()
    if before != "empty":
        await bench.add(producer, HERE, version=FIRST_VERSION)
        await bench.end(producer, committed=before == "committed", version=FIRST_VERSION)
    identity = await bench.end(producer, committed=committed, version=FIRST_VERSION)
    assert identity.error_code is error_code


async def test_strangers_cannot_add_or_end(bench: TransactionBench) -> None:
    producer = await bench.start()
    foreign = Producer(99, 0)
    newer = Producer(producer.producer_id, 5)
    assert await bench.add(foreign, HERE) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await bench.add(newer, HERE) is ErrorCode.PRODUCER_FENCED
    assert (await bench.end(foreign)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await bench.end(newer)).error_code is ErrorCode.PRODUCER_FENCED
    unknown = await bench.end(producer, transactional_id="unknown")
    assert unknown.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    nameless = await bench.end(producer, transactional_id="")
    assert nameless.error_code is ErrorCode.INVALID_REQUEST


async def test_while_markers_are_under_way_everybody_waits(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    marker: Promise[ErrorCode] = Promise()
    bench.markers.refuse[HERE] = [marker]
    identity = await bench.end(producer)
    assert identity.error_code is ErrorCode.NONE, "the outcome is decided"
    assert bench.transaction().state is PREPARE_COMMIT
    promised = Producer(identity.producer_id, identity.producer_epoch)
    assert await bench.add(promised, THERE) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await bench.init()).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await bench.end(promised)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    marker.set(ErrorCode.NONE)
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    assert await bench.add(promised, THERE) is ErrorCode.NONE


async def test_a_marker_is_written_again_until_it_is_there(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.markers.refuse[HERE] = [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]
    await bench.end(producer)
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    assert len(bench.markers.written) == 1


async def test_markers_of_other_leaders_go_over_the_network(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE, THERE)
    bench.cluster.leaders[THERE] = OTHER_BROKER_ID
    bench.cluster.answers = [
        ConnectionError("gone"),
        marker_answer(producer, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        marker_answer(producer, ErrorCode.NONE),
    ]
    await bench.end(producer)
    assert bench.transaction().state is PREPARE_COMMIT
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    assert [broker_id for broker_id, _ in bench.cluster.requests] == [OTHER_BROKER_ID] * 3
    [sent] = bench.cluster.requests[0][1].markers
    assert (sent.producer_id, sent.transaction_result) == (producer.producer_id, True)
    assert sent.transaction_version == SECOND_VERSION
    assert len(bench.markers.written) == 1, "what was written is not written again"


async def test_a_bug_leaves_no_transaction_without_its_markers(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, THERE)
    bench.cluster.leaders[THERE] = OTHER_BROKER_ID
    bench.cluster.answers = [object(), marker_answer(producer, ErrorCode.NONE)]
    await bench.end(producer)
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)


async def test_markers_leave_a_broker_that_no_longer_leads(
    bench: TransactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused broker answers only after its request's timeout; the next leader is there sooner."""
    asked = asyncio.Event()

    async def never_answer(broker_id: int, message: object) -> object:
        asked.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(bench.cluster, "request", never_answer)
    monkeypatch.setattr(marker_channel, "LEADERS_CHECK_S", 0.01)
    under_way, queued = await bench.start("under way"), await bench.start("queued")
    bench.cluster.leaders[THERE] = OTHER_BROKER_ID
    for transactional_id, producer in (("under way", under_way), ("queued", queued)):
        await bench.add(producer, THERE, transactional_id=transactional_id)
        await bench.end(producer, transactional_id=transactional_id)
        await asyncio.wait_for(asked.wait(), timeout=5)
    assert bench.transaction("under way").state is PREPARE_COMMIT
    del bench.cluster.leaders[THERE]
    await until(lambda: bench.transaction("under way").state is COMPLETE_COMMIT)
    await until(lambda: bench.transaction("queued").state is COMPLETE_COMMIT)
    assert len(bench.markers.written) == 2


async def test_a_deleted_partition_needs_no_marker(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.cluster.leaders[HERE] = None
    await bench.end(producer)
    assert bench.transaction().state is COMPLETE_COMMIT


async def test_a_partition_without_leader_is_waited_for(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.cluster.leaders[HERE] = NO_LEADER
    await bench.end(producer)
    assert bench.transaction().state is PREPARE_COMMIT
    del bench.cluster.leaders[HERE]
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)


async def test_a_fenced_coordinator_stops(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.markers.refuse[HERE] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    await bench.end(producer)
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.transaction().state is PREPARE_COMMIT
    assert bench.markers.written == []


async def test_markers_wait_until_the_outcome_is_committed(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    ending = asyncio.ensure_future(bench.end(producer))
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.markers.written == []
    assert not ending.done()
    bench.log.commit_all()
    assert (await ending).error_code is ErrorCode.NONE
    assert len(bench.markers.written) == 1
    assert bench.transaction().state is COMPLETE_COMMIT


async def test_an_outcome_that_was_late_to_commit_is_marked_in_the_end(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    ending = asyncio.ensure_future(bench.end(producer))
    await asyncio.sleep(0)
    bench.log.lose(TimeoutError())
    assert (await ending).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.markers.written == []
    bench.log.lose_with = None
    bench.log.commit_all()
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    assert len(bench.markers.written) == 1


async def test_leadership_lost_in_the_moment_of_the_commit_leaves_the_markers_to_the_next_leader(
    bench: TransactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    ending = asyncio.ensure_future(bench.end(producer))
    await asyncio.sleep(0)
    bench.log.lose(TimeoutError())
    await ending
    bench.log.lose_with = None
    asked: list[int] = []

    def not_here(partition: int) -> int:
        asked.append(partition)
        raise NotCoordinator()

    monkeypatch.setattr(bench.log, "leader_epoch", not_here)
    monkeypatch.setattr("floodmark.coordinators.transactions.service.TIMER_RETRY_MS", 0)
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    bench.log.commit_all()
    await until(lambda: asked)
    await asyncio.sleep(0)
    gc.collect()
    assert (bench.markers.written, problems) == ([], [])


async def test_leadership_lost_while_waiting_sends_the_client_away(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    ending = asyncio.ensure_future(bench.end(producer))
    await asyncio.sleep(0)
    bench.service.unload(bench.service.partition_for("t"))
    assert (await ending).error_code is ErrorCode.NOT_COORDINATOR
    assert bench.markers.written == []


async def test_markers_stop_when_the_partition_is_given_away(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.cluster.leaders[HERE] = NO_LEADER
    await bench.end(producer)
    bench.service.unload(bench.service.partition_for("t"))
    bench.cluster.leaders.clear()
    await asyncio.sleep(0)
    assert bench.markers.written == []
    with pytest.raises(NotCoordinator):
        bench.service.runtime.shard(bench.service.partition_for("t"))


def marker_answer(producer: Producer, error_code: ErrorCode) -> WriteTxnMarkersResponse:
    partition = WritableTxnMarkerPartitionResult(partition_index=THERE[1], error_code=error_code)
    topic = WritableTxnMarkerTopicResult(name=THERE[0], partitions=[partition])
    result = WritableTxnMarkerResult(producer_id=producer.producer_id, topics=[topic])
    return WriteTxnMarkersResponse(markers=[result])
