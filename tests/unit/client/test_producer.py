"""The producer against a broker that refuses, repeats, forgets and falls silent."""

import asyncio
from typing import Any

import pytest

from floodmark.client.errors import ClientClosed, ConnectionFailed, KafkaError, RequestTimedOut
from floodmark.client.producer.batch import Delivery
from floodmark.client.producer.producer import Producer
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from kit.partition_leader import Leader, quick, send_numbers


async def test_records_come_back_with_where_they_went(scripted, leader: Leader) -> None:
    async with Producer(scripted.address, quick()) as producer:
        sent = await send_numbers(producer, 3)
    assert [(m.topic, m.partition, m.offset) for m in sent] == [("t", 0, n) for n in range(3)]
    assert leader.logs[0] == [b"0", b"1", b"2"]


async def test_lingering_gathers_records_into_one_batch(scripted, leader: Leader) -> None:
    async with Producer(scripted.address, quick(linger_ms=10_000)) as producer:
        deliveries = [await producer.send("t", b"x") for _ in range(50)]
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
    assert [header.records_count for header in leader.headers] == [50]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_order_holds_when_batches_are_refused_and_tried_again(
    scripted, leader: Leader, idempotent: bool
) -> None:
    leader.errors = [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, ErrorCode.REQUEST_TIMED_OUT]
    settings = quick(enable_idempotence=idempotent, batch_size=1)
    async with Producer(scripted.address, settings) as producer:
        await send_numbers(producer, 12)
    assert leader.logs[0] == [b"%d" % number for number in range(12)]


async def test_a_lost_connection_is_made_anew(scripted, leader: Leader) -> None:
    answers = iter([scripted.hang_up])
    scripted.on[ApiKey.PRODUCE] = lambda *a: next(answers, None) or leader.produce(*a)
    async with Producer(scripted.address, quick()) as producer:
        assert (await producer.send_and_wait("t", b"x")).offset == 0


async def test_a_repeat_that_the_broker_knows_counts_as_success(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    async with Producer(scripted.address, quick()) as producer:
        assert (await producer.send_and_wait("t", b"x")).offset == -1


async def test_a_real_gap_bumps_the_epoch_and_numbers_from_zero(scripted, leader: Leader) -> None:
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        await producer.send_and_wait("t", b"0")
        leader.errors = [ErrorCode.UNKNOWN_PRODUCER_ID]
        await producer.send_and_wait("t", b"1")
        await producer.send_and_wait("t", b"2")
    numbered = [(h.producer_epoch, h.base_sequence) for h in leader.headers]
    assert numbered == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert leader.logs[0] == [b"0", b"1", b"2"]


async def test_a_batch_that_fails_for_good_does_not_stop_those_behind_it(
    scripted, leader: Leader
) -> None:
    leader.errors = [ErrorCode.INVALID_RECORD]
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        bad, good = await producer.send("t", b"bad"), await producer.send("t", b"good")
        with pytest.raises(KafkaError) as caught:
            await bad
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert (await good).offset == 0
    assert leader.logs[0] == [b"good"]


async def test_a_batch_too_large_for_the_broker_is_split(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.MESSAGE_TOO_LARGE]
    async with Producer(scripted.address, quick(linger_ms=10_000)) as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(4)]
        await producer.flush()
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2, 3]
    assert [header.records_count for header in leader.headers] == [4, 2, 2]


async def test_each_record_of_a_split_batch_ends_as_its_half_does(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.MESSAGE_TOO_LARGE, None, ErrorCode.INVALID_RECORD]
    async with Producer(scripted.address, quick(linger_ms=10_000)) as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(4)]
        await producer.flush()
        assert [(await delivery).offset for delivery in deliveries[:2]] == [0, 1]
        for delivery in deliveries[2:]:
            with pytest.raises(KafkaError):
                await delivery
    assert leader.logs[0] == [b"0", b"1"]


async def test_a_record_too_large_for_the_producer_is_refused_at_once(
    scripted, leader: Leader
) -> None:
    async with Producer(scripted.address, quick(max_request_size=1_000)) as producer:
        with pytest.raises(KafkaError, match=r"max\.request\.size"):
            await producer.send("t", b"x" * 1_000)


async def test_without_acks_nothing_is_waited_for(scripted, leader: Leader) -> None:
    scripted.on[ApiKey.PRODUCE] = lambda *_: scripted.silence
    async with Producer(scripted.address, quick(acks=0)) as producer:
        assert (await producer.send_and_wait("t", b"x")).offset == -1
        await scripted.until_seen(ApiKey.PRODUCE, 1)


async def test_full_memory_makes_senders_wait_until_there_is_room(scripted, leader: Leader) -> None:
    settings = quick(linger_ms=60_000, buffer_memory=2_000, batch_size=1_000)
    async with Producer(scripted.address, settings) as producer:
        for _ in range(100):
            await producer.send("t", b"x" * 100)
    assert len(leader.logs[0]) == 100


async def test_memory_that_stays_full_is_an_error(scripted, leader: Leader) -> None:
    scripted.on[ApiKey.PRODUCE] = lambda *_: scripted.silence
    settings = quick(
        buffer_memory=500, max_block_ms=30, delivery_timeout_ms=100, request_timeout_ms=100
    )
    async with Producer(scripted.address, settings) as producer:
        with pytest.raises(RequestTimedOut, match=r"buffer\.memory"):
            for _ in range(10):
                await producer.send("t", b"x" * 100)


async def test_delivery_ends_with_its_timeout(scripted, leader: Leader) -> None:
    leader.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000
    async with Producer(scripted.address, quick(delivery_timeout_ms=50)) as producer:
        delivery = await producer.send("t", b"x")
        with pytest.raises(KafkaError) as caught:
            await delivery
    assert caught.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert "NOT_ENOUGH_REPLICAS" in str(caught.value)


async def test_a_missing_partition_is_named(scripted, leader: Leader) -> None:
    async with Producer(scripted.address, quick()) as producer:
        with pytest.raises(KafkaError, match="no partition 9"):
            await producer.send("t", b"x", partition=9)


async def test_a_partition_that_was_just_added_is_found(scripted, leader: Leader) -> None:
    async with Producer(scripted.address, quick()) as producer:
        await producer.send_and_wait("t", b"x")
        scripted.topics["t"] = 3
        assert (await producer.send_and_wait("t", b"y", partition=2)).partition == 2


async def test_a_topic_that_a_broker_does_not_know_for_a_moment_is_waited_for(
    scripted, leader: Leader
) -> None:
    """A broker that has just started has to learn the topics first."""
    async with Producer(scripted.address, quick()) as producer:
        await producer.send_and_wait("t", b"x")
        partitions = scripted.topics.pop("t")
        await producer.cluster.refresh()
        sending = asyncio.create_task(producer.send_and_wait("t", b"y"))
        asked = len(scripted.seen[ApiKey.METADATA])
        await scripted.until_seen(ApiKey.METADATA, asked + 2)
        scripted.topics["t"] = partitions
        async with asyncio.timeout(20):
            await sending
    assert leader.logs[0] == [b"x", b"y"]


async def test_senders_that_wait_for_room_hear_that_the_producer_was_closed(
    scripted, leader: Leader
) -> None:
    """Their records would be taken and never sent."""
    scripted.on[ApiKey.PRODUCE] = lambda *_: scripted.silence
    async with Producer(scripted.address, quick(buffer_memory=500, batch_size=1)) as producer:

        async def send() -> None:
            await producer.send_and_wait("t", b"x" * 100)

        sending = [asyncio.create_task(send()) for _ in range(20)]
        await scripted.until_seen(ApiKey.PRODUCE, 1)
        await producer.close(flush=False)
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ConnectionFailed, ClientClosed}


async def test_a_callback_that_raises_does_not_stop_the_sender(scripted, leader: Leader) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a defect of the caller")

    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with Producer(scripted.address, quick(batch_size=1)) as producer:
        first = await producer.send("t", b"0")
        first.add_done_callback(fail)
        await first
        await producer.send_and_wait("t", b"1")
    assert len(failures) == 1


async def test_closing_sends_what_is_left_and_then_refuses(scripted, leader: Leader) -> None:
    producer = Producer(scripted.address, quick(linger_ms=60_000))
    await producer.send("t", b"x")
    await producer.close()
    assert leader.logs[0] == [b"x"]
    with pytest.raises(ClientClosed):
        await producer.send("t", b"y")


async def test_a_cancelled_producer_does_not_wait_for_a_broker_that_is_silent(
    scripted, leader: Leader
) -> None:
    scripted.on[ApiKey.PRODUCE] = lambda *_: scripted.silence
    deliveries = []

    async def work() -> None:
        async with Producer(scripted.address, quick()) as producer:
            deliveries.append(await producer.send("t", b"x"))
            await deliveries[0]

    task = asyncio.create_task(work())
    await scripted.until_seen(ApiKey.PRODUCE, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(KafkaError, match="closed before"):
        deliveries[0].result()


async def test_a_broker_in_trouble_is_named_once(
    scripted, leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([scripted.hang_up] * 3)
    scripted.on[ApiKey.PRODUCE] = lambda *a: next(answers, None) or leader.produce(*a)
    async with Producer(scripted.address, quick()) as producer:
        await producer.send_and_wait("t", b"x")
    assert len([r for r in caplog.records if "producing to broker 1" in r.message]) == 1


async def test_a_flush_that_has_nothing_to_send_runs_the_callbacks_that_are_due(
    scripted, leader: Leader
) -> None:
    seen: list[Delivery] = []
    async with Producer(scripted.address, quick()) as producer:
        delivery = await producer.send("t", b"x")
        await delivery
        delivery.add_done_callback(seen.append)
        await producer.flush()
        assert seen == [delivery]


@pytest.mark.parametrize("name", ["x" * 40_000, "\udcff"])
async def test_a_topic_name_that_no_request_can_hold_does_no_harm_to_others(
    scripted, leader: Leader, name: str
) -> None:
    async with Producer(scripted.address, quick()) as producer:
        with pytest.raises(ValueError):
            await producer.send(name, b"x")
        assert (await producer.send_and_wait("t", b"x")).offset == 0
