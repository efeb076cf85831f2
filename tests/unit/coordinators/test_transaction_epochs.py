"""InitProducerId: ids, epochs, fencing and recovery (KIP-360, KIP-890)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from floodmark.coordinators.ports import AppendRefused
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.states import COMPLETE_ABORT, EMPTY, ONGOING
from floodmark.coordinators.transactions.transaction import MAX_PRODUCER_EPOCH
from floodmark.wire.errors import ErrorCode
from kit.transactions import FIRST_VERSION, SECOND_VERSION, TransactionBench, settled


@pytest.fixture(params=[FIRST_VERSION, SECOND_VERSION], ids=["tv0", "tv2"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[TransactionBench]:
    made = TransactionBench(request.param)
    yield made
    made.close()


async def test_a_producer_without_transactional_id_gets_new_ids(bench: TransactionBench) -> None:
    first = await settled(bench.service.new_producer_id())
    second = await settled(bench.service.new_producer_id())
    assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
    assert second.producer_id == first.producer_id + 1


async def test_every_start_of_a_transactional_producer_raises_the_epoch(
    bench: TransactionBench,
) -> None:
    first = await bench.start()
    second = await bench.start()
    assert first.producer_epoch == 0
    assert second == (first.producer_id, 1)
    assert bench.transaction().state is EMPTY


async def test_transactional_ids_have_producer_ids_of_their_own(bench: TransactionBench) -> None:
    assert (await bench.start("a")).producer_id != (await bench.start("b")).producer_id


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_timeouts_outside_the_bounds_are_refused(
    bench: TransactionBench, timeout_ms: int
) -> None:
    identity = await bench.init(timeout_ms=timeout_ms)
    assert identity.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_an_empty_transactional_id_is_an_invalid_request(bench: TransactionBench) -> None:
    assert (await bench.init("")).error_code is ErrorCode.INVALID_REQUEST


async def test_a_recovering_producer_keeps_its_id_with_the_next_epoch(
    bench: TransactionBench,
) -> None:
    producer = await bench.start()
    recovered = await bench.init(expected=producer)
    assert recovered == (ErrorCode.NONE, producer.producer_id, 1)


async def test_a_repeated_recovery_is_answered_with_the_same_epoch(bench: TransactionBench) -> None:
    producer = await bench.start()
    recovered = await bench.init(expected=producer)
    assert await bench.init(expected=producer) == recovered


async def test_a_zombie_cannot_recover(bench: TransactionBench) -> None:
    zombie = await bench.start()
    await bench.start()
    await bench.start()
    assert (await bench.init(expected=zombie)).error_code is ErrorCode.PRODUCER_FENCED


async def test_a_foreign_producer_id_cannot_recover(bench: TransactionBench) -> None:
    await bench.start()
    foreign = await bench.init(expected=Producer(77, 0))
    assert foreign.error_code is ErrorCode.PRODUCER_FENCED


async def test_a_start_aborts_the_transaction_that_was_left_open(bench: TransactionBench) -> None:
    zombie = await bench.start()
    await bench.add(zombie, ("topic", 0), version=bench.limits.server_version)
    assert (await bench.init()).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    [(topic, partition, marker)] = bench.markers.written
    assert (topic, partition, marker.committed) == ("topic", 0, False)
    assert marker.producer_epoch == zombie.producer_epoch + 1
    assert bench.transaction().state is COMPLETE_ABORT
    started = await bench.start()
    assert started == (zombie.producer_id, zombie.producer_epoch + 2)
    assert await bench.add(zombie, ("topic", 0)) is ErrorCode.PRODUCER_FENCED


async def test_used_up_epochs_bring_a_new_producer_id(bench: TransactionBench) -> None:
    producer = await bench.start()
    bench.use_epochs(MAX_PRODUCER_EPOCH - 1)
    rotated = await bench.init()
    assert rotated.error_code is ErrorCode.NONE
    assert rotated.producer_id != producer.producer_id
    assert rotated.producer_epoch == 0


async def test_a_recovery_that_got_a_new_id_can_be_repeated(bench: TransactionBench) -> None:
    producer = await bench.start()
    bench.use_epochs(MAX_PRODUCER_EPOCH - 1)
    last = Producer(producer.producer_id, MAX_PRODUCER_EPOCH - 1)
    rotated = await bench.init(expected=last)
    assert rotated.producer_id != producer.producer_id
    assert await bench.init(expected=last) == rotated


async def test_a_failed_append_changes_nothing(bench: TransactionBench) -> None:
    producer = await bench.start()
    await bench.add(producer, ("topic", 0))
    before = bench.transaction()
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (await bench.init()).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await bench.end(producer)).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.transaction() == before
    assert before.state is ONGOING
    assert bench.markers.written == []


async def test_a_partition_that_is_not_led_here_has_no_coordinator(bench: TransactionBench) -> None:
    bench.service.unload(bench.service.partition_for("t"))
    assert (await bench.init()).error_code is ErrorCode.NOT_COORDINATOR
