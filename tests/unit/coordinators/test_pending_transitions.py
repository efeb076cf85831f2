"""Until a move of a transaction is committed, it makes no other: CONCURRENT_TRANSACTIONS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
)
from floodmark.wire.errors import ErrorCode
from kit.transactions import FIRST_VERSION, SECOND_VERSION, TransactionBench, until

HERE = ("topic", 0)
THERE = ("topic", 1)
TIMEOUT_MS = 60_000

Request = Callable[[TransactionBench, Producer, int], Awaitable[ErrorCode]]


async def start(bench: TransactionBench, producer: Producer, version: int) -> ErrorCode:
    return (await bench.init()).error_code


async def add(bench: TransactionBench, producer: Producer, version: int) -> ErrorCode:
    return await bench.add(producer, HERE, version=version)


async def add_another(bench: TransactionBench, producer: Producer, version: int) -> ErrorCode:
    return await bench.add(producer, THERE, version=version)


async def commit(bench: TransactionBench, producer: Producer, version: int) -> ErrorCode:
    return (await bench.end(producer, version=version)).error_code


async def abort(bench: TransactionBench, producer: Producer, version: int) -> ErrorCode:
    return (await bench.end(producer, version=version, committed=False)).error_code


async def under_way(request: Awaitable[ErrorCode]) -> asyncio.Future[ErrorCode]:
    waiting = asyncio.ensure_future(request)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@pytest.mark.parametrize("version", [FIRST_VERSION, SECOND_VERSION])
@pytest.mark.parametrize("other", [start, add, add_another, commit, abort])
async def test_every_request_has_to_wait_for_an_added_partition(
    bench: TransactionBench, other: Request, version: int
) -> None:
    producer = await bench.start()
    bench.log.hold = True
    adding = await under_way(add(bench, producer, version))
    assert (
        await asyncio.wait_for(other(bench, producer, version), 1)
        is ErrorCode.CONCURRENT_TRANSACTIONS
    )
    bench.log.commit_all()
    assert await adding is ErrorCode.NONE
    assert bench.transaction().partitions == {HERE}
    assert await commit(bench, producer, version) is ErrorCode.NONE


@pytest.mark.parametrize("version", [FIRST_VERSION, SECOND_VERSION])
async def test_a_completed_transaction_is_followed_by_another_when_that_is_committed(
    bench: TransactionBench, version: int
) -> None:
    producer = await bench.start()
    await add(bench, producer, version)
    bench.log.hold = True
    ending = await under_way(commit(bench, producer, version))
    bench.log.commit_all()
    bench.log.hold = True
    assert await ending is ErrorCode.NONE
    await until(lambda: bench.transaction().state is COMPLETE_COMMIT)
    current = bench.transaction()
    following = Producer(current.producer_id, current.producer_epoch)
    assert await add(bench, following, version) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.log.commit_all()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await add(bench, following, version) is ErrorCode.NONE


async def test_a_second_producer_waits_for_the_first_to_be_known(bench: TransactionBench) -> None:
    await bench.start("other")  # producer ids are at hand
    bench.log.hold = True
    first = await under_way(start(bench, Producer(0, 0), SECOND_VERSION))
    assert (await bench.init()).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.log.commit_all()
    assert await first is ErrorCode.NONE
    assert (await bench.init()).producer_epoch == 1


async def test_a_transaction_is_not_aborted_for_its_age_before_its_move_is_committed(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    await bench.add(producer, HERE)
    bench.log.hold = True
    adding = await under_way(add_another(bench, producer, SECOND_VERSION))
    bench.advance(TIMEOUT_MS + 20_000)
    assert bench.transaction().state is ONGOING
    bench.log.commit_all()
    assert await adding is ErrorCode.NONE
    bench.advance(20_000)
    await until(lambda: bench.transaction().state is COMPLETE_ABORT)
    assert {(topic, partition) for topic, partition, _ in bench.markers.written} == {HERE, THERE}


async def test_a_transactional_id_does_not_expire_before_its_move_is_committed(
    bench: TransactionBench,
) -> None:
    await bench.start()
    bench.log.hold = True
    bench.clock.advance(bench.limits.expiration_ms)
    restarting = await under_way(start(bench, Producer(0, 0), SECOND_VERSION))
    bench.advance(bench.limits.expiration_ms)
    assert bench.transaction().producer_epoch == 1
    bench.log.commit_all()
    assert await restarting is ErrorCode.NONE


@pytest.mark.parametrize("version", [FIRST_VERSION, SECOND_VERSION])
async def test_a_move_that_was_late_to_commit_does_not_block_for_ever(
    bench: TransactionBench, version: int
) -> None:
    producer = await bench.start()
    bench.log.hold = True
    adding = await under_way(add(bench, producer, version))
    bench.log.lose(TimeoutError())
    assert await adding is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.lose_with = None
    bench.log.commit_all()
    assert await add(bench, producer, version) is ErrorCode.NONE
    assert await commit(bench, producer, version) is ErrorCode.NONE
