"""Batches of a partition leave in order, whatever happens to the connection."""

import asyncio
from typing import Any

import pytest

from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import ConnectionFailed, KafkaError, RequestTimedOut
from floodmark.client.producer.batch import Delivery
from floodmark.client.producer.producer import Producer
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from kit.partition_leader import Leader, quick, send_numbers


class Opening:
    """Takes the place of `Connection.open`: a test decides when and whether it succeeds."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.errors: list[KafkaError] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._open = Connection.open

    async def __call__(self, *arguments: Any) -> Connection:
        self.begun.set()
        connection = await self._open(*arguments)
        await self.may_go_on.wait()
        if self.errors:
            await connection.close()
            raise self.errors.pop(0)
        return connection


@pytest.fixture
async def opening(monkeypatch: pytest.MonkeyPatch) -> Opening:
    double = Opening()
    monkeypatch.setattr(Connection, "open", double)
    return double


def sequences(leader: Leader) -> list[int]:
    return [header.base_sequence for header in leader.headers]


async def turns(count: int) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def send_while_it_opens(producer: Producer, opening: Opening, count: int) -> list[Delivery]:
    """Each record is a batch, and the sender has looked at it before the next one comes."""
    opening.begun.clear()
    opening.may_go_on.clear()
    deliveries = [await producer.send("t", b"0")]
    await opening.begun.wait()
    for number in range(1, count):
        deliveries.append(await producer.send("t", b"%d" % number))
        await turns(5)
    return deliveries


@pytest.mark.parametrize("head_start", [1, 2, 3, 4])
async def test_batches_sent_while_the_connection_opens_leave_in_order(
    scripted, leader: Leader, opening: Opening, head_start: int
) -> None:
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        deliveries = await send_while_it_opens(producer, opening, head_start)
        opening.may_go_on.set()
        for number in range(head_start, 40):
            deliveries.append(await producer.send("t", b"%d" % number))
            await asyncio.sleep(0)
        assert [(await delivery).offset for delivery in deliveries] == list(range(40))
    assert sequences(leader) == list(range(40))


async def test_batches_leave_in_order_when_connections_fail_before_one_opens(
    scripted, leader: Leader, opening: Opening
) -> None:
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        deliveries = await send_while_it_opens(producer, opening, 5)
        opening.errors = [ConnectionFailed("refused by the test") for _ in range(2)]
        opening.may_go_on.set()
        assert [(await delivery).offset for delivery in deliveries] == list(range(5))
    assert sequences(leader) == list(range(5))


async def test_batches_leave_in_order_after_a_lost_connection(
    scripted, leader: Leader, opening: Opening
) -> None:
    answers = iter([None, scripted.hang_up])

    def produce(*arguments: Any) -> Any:
        answer = next(answers, None)
        if answer is scripted.hang_up:
            opening.errors = [ConnectionFailed("refused by the test") for _ in range(2)]
        return answer or leader.produce(*arguments)

    scripted.on[ApiKey.PRODUCE] = produce
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        await send_numbers(producer, 20)
    assert sequences(leader) == list(range(20))


async def test_records_that_found_no_connection_end_with_the_delivery_timeout(
    scripted, leader: Leader, opening: Opening
) -> None:
    settings = quick(delivery_timeout_ms=30, retry_backoff_max_ms=5)
    async with Producer(scripted.address, settings) as producer:
        opening.errors = [ConnectionFailed("refused by the test") for _ in range(10_000)]
        delivery = await producer.send("t", b"x")
        with pytest.raises(RequestTimedOut, match=r"delivery\.timeout\.ms.*refused by the test"):
            await delivery
        opening.errors.clear()
        assert (await producer.send_and_wait("t", b"y")).offset == 0


async def test_a_broker_that_cannot_be_used_fails_the_records_for_it(
    scripted, leader: Leader, opening: Opening
) -> None:
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        opening.errors = [KafkaError(ErrorCode.UNSUPPORTED_VERSION, "too old for the test")]
        deliveries = [await producer.send("t", b"x") for _ in range(3)]
        for delivery in deliveries:
            with pytest.raises(KafkaError, match="too old for the test"):
                await delivery
