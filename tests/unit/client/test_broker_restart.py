"""Clients that go on when their only broker goes away and comes back."""

import asyncio
import socket
from pathlib import Path

from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.testing.broker_thread import BrokerThread

RECORDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_transactions_and_group_go_on_over_restarts(tmp_path: Path) -> None:
    """Every record is committed once and read once, whatever was under way."""
    port = free_port()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "group.min.session.timeout.ms": "100",
    }
    address = f"127.0.0.1:{port}"
    sent = [b"%d" % number for number in range(RECORDS)]
    read: list[bytes | None] = []

    async def produce() -> None:
        settings = ProducerSettings(transactional_id="tx", retry_backoff_ms=10)
        async with Producer(address, settings) as producer:
            await producer.init_transactions()
            for value in sent:
                async with producer.transaction():
                    await producer.send("t", value)
                await asyncio.sleep(0.01)

    async def consume() -> None:
        settings = ConsumerSettings(
            group_id="g",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            heartbeat_interval_ms=50,
            session_timeout_ms=5_000,
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
        )
        async with Consumer(address, settings) as consumer:
            await consumer.subscribe(["t"])
            while len(read) < RECORDS:
                for records in (await consumer.poll(100)).values():
                    read.extend(record.value for record in records)

    running = BrokerThread(tmp_path, listeners).start()
    running.create_topic("t", 1)
    work = [asyncio.create_task(produce()), asyncio.create_task(consume())]
    try:
        for restart in (1, 2):
            async with asyncio.timeout(30):
                while len(read) < restart * RECORDS // 3:  # noqa: ASYNC110 - read by another task
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(running.stop)
            running = await asyncio.to_thread(BrokerThread(tmp_path, listeners).start)
        async with asyncio.timeout(60):
            await asyncio.gather(*work)
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await asyncio.to_thread(running.stop)
    assert read == sent
