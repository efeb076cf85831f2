"""The demo's shop: writes products and a stream of orders, and reads the results."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from datetime import UTC, datetime
from typing import Self

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.consumer.consumer import Consumer, ConsumerRecord
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings
from floodmark.clock import SystemClock

PRODUCTS = {
    "p1": ("Rubber boots", "clothing", 49.0),
    "p2": ("Rain coat", "clothing", 89.5),
    "p3": ("Sandbag", "barriers", 3.2),
    "p4": ("Flood gate", "barriers", 1490.0),
    "p5": ("Water pump", "tools", 219.0),
    "p6": ("Gauge", "tools", 35.0),
}
ORDERS_PER_SECOND = 40
# Every N-th order is malformed, so the demo has dead letters.
SPOILED_EVERY = 50


class Shop:
    """Sends orders from its own thread between `open_for` and `close`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent = 0
        self.spoiled = 0

    def __enter__(self) -> Self:
        asyncio.run(self._prepare())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open_for(self, seconds: int | None) -> None:
        """Sends orders for this many seconds, or until `close`."""
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._sell(seconds)), name="demo-shop"
        )
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def has_closed(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def read(self, topic: str) -> list[ConsumerRecord]:
        return asyncio.run(self._read(topic))

    async def _prepare(self) -> None:
        async with Admin(self._bootstrap) as admin:
            compacted = {"cleanup.policy": "compact"}
            await admin.create_topic(NewTopic("orders", partitions=2))
            await admin.create_topic(NewTopic("products", partitions=1, configs=compacted))
            await admin.create_topic(NewTopic("revenue", partitions=1))
            await admin.create_topic(NewTopic("orders-dead", partitions=1))
        async with Producer(self._bootstrap) as producer:
            for product_id, (name, category, price) in PRODUCTS.items():
                row = {"product_id": product_id, "name": name, "category": category}
                value = json.dumps({**row, "price": price}).encode()
                await producer.send("products", value, key=product_id.encode())

    async def _sell(self, seconds: int | None) -> None:
        generator = random.Random(7)
        clock = SystemClock()
        end_ms = None if seconds is None else clock.monotonic_ms() + seconds * 1000
        async with Producer(self._bootstrap) as producer:
            while not self._closing.is_set() and (end_ms is None or clock.monotonic_ms() < end_ms):
                for _ in range(ORDERS_PER_SECOND // 10):
                    self.sent += 1
                    order_id = f"o{self.sent}"
                    value = self._order(order_id, generator)
                    await producer.send("orders", value, key=order_id.encode())
                await asyncio.sleep(0.1)

    def _order(self, order_id: str, generator: random.Random) -> bytes:
        if self.sent % SPOILED_EVERY == 0:
            self.spoiled += 1
            return f'{{"order_id": "{order_id}", "quantity": two'.encode()
        order = {
            "order_id": order_id,
            "product_id": generator.choice(list(PRODUCTS)),
            "quantity": generator.randint(1, 5),
            "ordered_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        return json.dumps(order).encode()

    async def _read(self, topic: str) -> list[ConsumerRecord]:
        settings = ConsumerSettings(isolation_level="read_committed")
        found: list[ConsumerRecord] = []
        async with Consumer(self._bootstrap, settings) as consumer:
            partitions = await consumer.partitions_of(topic)
            await consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(partitions)
            while any([await consumer.position(p) < ends[p] for p in partitions]):
                for partition, records in (await consumer.poll()).items():
                    found += [
                        ConsumerRecord(*partition, offset, timestamp, key, value, headers)
                        for offset, timestamp, key, value, headers in records
                    ]
        return found
