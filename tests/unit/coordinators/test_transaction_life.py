"""Timeouts, expiry, failover, and what tools see of transactions."""

from __future__ import annotations

import asyncio
from itertools import count, islice

import pytest

from floodmark.coordinators.ports import AppendRefused
from floodmark.coordinators.runtime import TIMER_RETRY_MS
from floodmark.coordinators.transactions import shard
from floodmark.coordinators.transactions.listing import TransactionFilter
from floodmark.coordinators.transactions.records import (
    decode_transaction,
    encode_transaction,
    encode_transactional_id,
)
from floodmark.coordinators.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.promise import Promise
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from floodmark.wire.schema import WireError
from kit.transactions import (
    FIRST_VERSION,
    OTHER_BROKER_ID,
    SECOND_VERSION,
    TransactionBench,
    settled,
    until,
)

HERE = ("topic", 0)
THERE = ("topic", 1)


@pytest.mark.parametrize("server_version", [FIRST_VERSION, SECOND_VERSION])
async def test_a_transaction_that_runs_out_of_time_is_aborted_and_its_producer_fenced(
    server_version: int,
) -> None:
    bench = TransactionBench(server_version)
    producer = await bench.start()
    await bench.add(producer, HERE, version=server_version)
    bench.advance(60_000)
    assert bench.transaction().state is ONGOING
    bench.advance(10_001)
    assert bench.transaction().state is COMPLETE_ABORT
    [(_, _, marker)] = bench.markers.written
    assert (marker.committed, marker.producer_epoch) == (False, producer.producer_epoch + 1)
    assert await bench.add(producer, HERE) is ErrorCode.PRODUCER_FENCED
    ended = await bench.end(producer, version=FIRST_VERSION)
    assert ended.error_code is ErrorCode.PRODUCER_FENCED
    bench.close()


async def test_a_later_transaction_of_the_shard_is_not_forgotten_by_the_timer(
    bench: TransactionBench,
) -> None:
    for _ in range(3):
        producer = await bench.start()
        await bench.add(producer, HERE)
        bench.advance(80_000)
        assert bench.transaction().state is COMPLETE_ABORT


async def test_unused_transactional_ids_are_forgotten(bench: TransactionBench) -> None:
    await bench.start("idle")
    busy = await bench.start("busy")
    bench.advance(bench.limits.expiration_ms // 2)
    await bench.add(busy, HERE, transactional_id="busy")
    await bench.end(busy, transactional_id="busy")
    bench.advance(bench.limits.expiration_ms // 2 + 1)
    assert bench.service.describe("idle")[0] is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.service.describe("busy")[0] is ErrorCode.NONE
    await bench.load_again()
    assert bench.service.describe("idle")[0] is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_forgetting_that_the_log_refuses_is_not_tried_again_at_once(
    bench: TransactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "MAX_TOMBSTONES", 1)
    for name in in_one_partition(bench, 2):
        await bench.start(name)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.advance(bench.limits.expiration_ms + 1)
    bench.log.fail_with = None
    bench.advance(0)
    assert len(bench.all_transactions()) == 2
    bench.advance(bench.limits.expire_interval_ms)
    bench.advance(0)
    assert bench.all_transactions() == []


def in_one_partition(bench: TransactionBench, number: int) -> list[str]:
    names = (f"late-{n}" for n in count())
    return list(islice((n for n in names if bench.service.partition_for(n) == 0), number))


async def test_however_many_transactions_run_out_of_time_at_once(bench: TransactionBench) -> None:
    names = in_one_partition(bench, 20)
    for name in names:
        await bench.add(await bench.start(name), HERE, transactional_id=name)
    bench.log.max_batch_bytes = 500
    bench.advance(70_001)
    assert {bench.transaction(name).state for name in names} == {COMPLETE_ABORT}
    assert len(bench.markers.written) == len(names)
    bench.advance(bench.limits.expiration_ms + 1)
    assert bench.all_transactions() == []


async def test_those_that_fit_are_aborted_once_when_another_is_refused(
    bench: TransactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = in_one_partition(bench, 2)
    for name in names:
        await bench.add(await bench.start(name), HERE, transactional_id=name)
    append = bench.log.append
    taken: list[int] = []

    def take_one_batch(partition: int, batch: bytearray) -> int:
        if taken:
            raise AppendRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        taken.append(append(partition, batch))
        return taken[0]

    with monkeypatch.context() as patched:
        bench.log.max_batch_bytes = 200
        patched.setattr(bench.log, "append", take_one_batch)
        bench.advance(70_001)
    assert [bench.transaction(name).state for name in names] == [PREPARE_ABORT, ONGOING]
    bench.advance(TIMER_RETRY_MS)
    await until(lambda: {bench.transaction(name).state for name in names} == {COMPLETE_ABORT})
    assert len(bench.markers.written) == len(names)


async def test_an_open_transaction_survives_a_failover(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    await bench.load_again()
    assert bench.transaction().state is ONGOING
    await bench.end(producer)
    assert bench.transaction().state is COMPLETE_COMMIT


async def test_a_new_coordinator_times_out_what_it_found_open(bench: TransactionBench) -> None:
    await bench.add(await bench.start(), HERE)
    await bench.load_again()
    bench.advance(70_001)
    assert bench.transaction().state is COMPLETE_ABORT


async def test_a_new_coordinator_completes_what_was_decided(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.cluster.leaders[HERE] = NO_LEADER
    identity = await bench.end(producer)
    bench.cluster.leaders.clear()
    bench.log.current_leader_epoch += 1
    await bench.load_again()
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    [(_, _, marker)] = bench.markers.written
    assert marker.committed
    assert marker.coordinator_epoch == bench.log.current_leader_epoch
    assert bench.transaction().producer_epoch == identity.producer_epoch


async def test_a_new_coordinator_waits_for_the_high_watermark_before_it_marks(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    ending = asyncio.ensure_future(bench.end(producer))
    await asyncio.sleep(0)
    await bench.load_again()
    await ending
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.transaction().state is PREPARE_COMMIT
    assert bench.markers.written == []
    bench.log.commit_all()
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)


async def test_tools_find_transactions_by_state_producer_age_and_pattern(
    bench: TransactionBench,
) -> None:
    first = await bench.start("orders-1")
    await bench.start("other")
    await bench.add(first, HERE, transactional_id="orders-1")
    bench.clock.advance(5000)

    def found(**wanted: object) -> set[str]:
        listing = bench.service.search(TransactionFilter(**wanted))  # type: ignore[arg-type]
        return {transaction.transactional_id for transaction in listing.transactions}

    assert found() == {"orders-1", "other"}
    assert found(state_labels=("Ongoing",)) == {"orders-1"}
    assert found(state_labels=("Nonsense",)) == set()
    assert found(producer_ids=frozenset({first.producer_id})) == {"orders-1"}
    assert found(state_labels=("Ongoing",), min_duration_ms=4999) == {"orders-1"}
    assert found(state_labels=("Ongoing",), min_duration_ms=5000) == set()

    async def found_by(pattern: str) -> set[str]:
        listing = await bench.service.search_by_pattern(pattern, TransactionFilter())
        return {transaction.transactional_id for transaction in listing.transactions}

    assert await found_by("orders-.*") == {"orders-1"}
    assert await found_by("orders") == set()
    unknown = bench.service.search(TransactionFilter(state_labels=("Nonsense", "Empty")))
    assert unknown.unknown_state_labels == ["Nonsense"]
    bad = await bench.service.search_by_pattern("(", TransactionFilter())
    assert bad.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_describing_an_unknown_transactional_id_says_so(bench: TransactionBench) -> None:
    assert bench.service.describe("nobody") == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None)
    assert bench.service.describe("") == (ErrorCode.INVALID_REQUEST, None)


async def test_records_are_in_kafkas_format() -> None:
    assert encode_transactional_id("tx") == bytes.fromhex("0000 0002 7478")
    transaction = Transaction(
        "tx",
        producer_id=7,
        timeout_ms=60_000,
        last_update_ms=2,
        previous_producer_id=7,
        producer_epoch=3,
        state=ONGOING,
        partitions=frozenset({("t", 5)}),
        start_ms=1,
        client_version=2,
    )
    value = encode_transaction(transaction, server_version=2)
    fields = (
        "0001"  # version
        "0000000000000007 0003 0000ea60 01"  # producer id, epoch, timeout, status
        "02 02 74 02 00000005 00"  # one topic, one partition, no tags
        "0000000000000002 0000000000000001"  # last update, start
        "02 00 08 0000000000000007 02 02 0002"  # tags: previous producer id, client version
    )
    assert value == bytes.fromhex(fields)
    assert decode_transaction("tx", value) == transaction


async def test_without_the_feature_records_keep_the_oldest_form() -> None:
    transaction = Transaction("tx", 7, 60_000, 2, previous_producer_id=7, producer_epoch=0)
    value = encode_transaction(transaction, server_version=0)
    assert value[:2] == b"\0\0"
    assert decode_transaction("tx", value) == transaction._replace(previous_producer_id=-1)
    assert decode_transaction("tx", b"\0\2" + value[2:]) is None


def test_a_record_in_a_state_that_nobody_knows_cannot_be_read() -> None:
    value = bytearray(encode_transaction(Transaction("tx", 7, 60_000, 2), server_version=2))
    value[16] = 99
    with pytest.raises(WireError):
        decode_transaction("tx", bytes(value))


# Verification of partitions (KIP-890)


async def test_records_for_a_partition_outside_the_transaction_are_refused(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE, version=FIRST_VERSION)
    both = frozenset({HERE, THERE})
    refused = await settled(bench.service.verify_or_add("t", *producer, both, add=False))
    assert refused == {THERE: ErrorCode.TRANSACTION_ABORTABLE}
    zombie = (producer.producer_id, producer.producer_epoch - 1)
    refused = await settled(bench.service.verify_or_add("t", *zombie, both, add=False))
    assert set(refused.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_version_2_adds_the_partition_on_the_producers_behalf(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    outcome = bench.service.verify_or_add("t", *producer, frozenset({HERE}), add=True)
    assert outcome == {}, "known at once"
    assert bench.transaction().partitions == {HERE}


async def test_version_2_waits_a_moment_for_the_markers_before(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    marker: Promise[ErrorCode] = Promise()
    bench.markers.refuse[HERE] = [marker]
    identity = await bench.end(producer)
    adding = asyncio.ensure_future(
        settled(
            bench.service.verify_or_add(
                "t", identity.producer_id, identity.producer_epoch, frozenset({HERE}), add=True
            )
        )
    )
    await asyncio.sleep(0)
    marker.set(ErrorCode.NONE)
    assert await adding == {}


async def test_version_2_gives_up_waiting_for_markers(bench: TransactionBench) -> None:
    bench.limits.add_retry_max_ms = 0
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.markers.refuse[HERE] = [Promise()]
    _, producer_id, producer_epoch = await bench.end(producer)
    refused = await settled(
        bench.service.verify_or_add("t", producer_id, producer_epoch, frozenset({HERE}), add=True)
    )
    assert refused == {HERE: ErrorCode.CONCURRENT_TRANSACTIONS}


async def test_another_coordinator_is_asked_over_the_network(bench: TransactionBench) -> None:
    log_partition = bench.service.partition_for("t")
    bench.cluster.leaders["__transaction_state", log_partition] = OTHER_BROKER_ID
    result = AddPartitionsToTxnTopicResult(
        name="topic",
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=0),
            AddPartitionsToTxnPartitionResult(
                partition_index=1, partition_error_code=ErrorCode.TRANSACTION_ABORTABLE
            ),
        ],
    )
    bench.cluster.answers = [
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id="t", topic_results=[result])
            ]
        ),
        ConnectionError("gone"),
    ]
    both = frozenset({HERE, THERE})
    refused = await settled(bench.service.verify_or_add("t", 7, 0, both, add=False))
    assert refused == {THERE: ErrorCode.TRANSACTION_ABORTABLE}
    [(_, request)] = bench.cluster.requests
    assert request.transactions[0].verify_only
    refused = await settled(bench.service.verify_or_add("t", 7, 0, both, add=False))
    assert set(refused.values()) == {ErrorCode.NETWORK_EXCEPTION}
