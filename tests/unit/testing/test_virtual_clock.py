"""Time that a test moves, alone and inside a broker."""

import asyncio
import time
from datetime import timedelta

import pytest

from floodmark.client import (
    Admin,
    Consumer,
    ConsumerSettings,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from floodmark.testing import Broker, VirtualClock

DAY = timedelta(days=1)


def test_a_virtual_clock_starts_now_and_stands_still() -> None:
    before_ms = time.time_ns() // 1_000_000
    clock = VirtualClock()
    assert before_ms <= clock.now_ms() <= time.time_ns() // 1_000_000
    assert VirtualClock(1000).now_ms() == 1000


def test_time_passes_in_milliseconds_or_as_a_timedelta() -> None:
    clock = VirtualClock(1000)
    clock.advance(5)
    clock.advance(timedelta(seconds=2))
    assert (clock.now_ms(), clock.monotonic_ms()) == (3005, 2005)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-timedelta(seconds=1))


async def until_empty(admin: Admin, topic: str) -> None:
    """Retention has removed every record."""
    async with asyncio.timeout(20):
        while True:
            wanted = {TopicPartition(topic, 0): OffsetSpec.EARLIEST}
            (first,) = (await admin.list_offsets(wanted)).values()
            if first.offset == 1:
                return
            await asyncio.sleep(0.01)


async def test_retention_acts_when_its_time_has_come() -> None:
    clock = VirtualClock()
    with Broker(clock=clock) as broker:
        topic = broker.create_topic(configs={"retention.ms": 1000})
        async with Producer(broker.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"x")
        async with Admin(broker.bootstrap_servers) as admin:
            clock.advance(DAY)
            await until_empty(admin, topic)


async def test_a_member_that_is_silent_too_long_is_expelled() -> None:
    clock = VirtualClock()
    with Broker(clock=clock) as broker:
        topic = broker.create_topic()
        async with (
            Admin(broker.bootstrap_servers) as admin,
            Consumer(broker.bootstrap_servers, ConsumerSettings(group_id="g")) as consumer,
        ):
            await consumer.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(100)
            broker.faults.drop("HEARTBEAT", times=1_000)
            clock.advance(timedelta(minutes=1))
            async with asyncio.timeout(20):
                while True:
                    described = await admin.describe_groups(["g"])
                    if not described["g"].members:
                        break
                    await asyncio.sleep(0.01)
