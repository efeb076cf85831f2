"""Topics as services in a real registry: a pipeline's output, and a table that lags."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from floodmark.client import NewTopic, Producer
from floodmark.client.admin.admin import Admin
from floodmark.service.consumer import Consumer
from floodmark.service.errors import RpcError
from floodmark.service.table import Table
from floodmark.zookeeper.session import ZooKeeperSession
from kit.broker import Broker, floodmark_broker
from kit.exported import FLOODMARK
from kit.process import ServerProcess, free_port
from kit.programs import run_program
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

pytestmark = pytest.mark.java

SHOP = Path(__file__).parents[2] / "examples" / "shop"
SERVED = "dev.floodmark.shop.RevenueTable"


@pytest.fixture
def broker(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Broker]:
    """Started after the namespace was entered, so that both are in it."""
    with floodmark_broker(tmp_path / "broker") as running:
        yield running


async def produce(broker: Broker, topic: str, rows: dict[str, dict[str, Any]]) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, 2)])
    async with Producer(broker.bootstrap) as producer:
        for key, row in rows.items():
            value = json.dumps(row).encode()
            await producer.send_and_wait(topic, key=key.encode(), value=value)


async def test_a_pipeline_s_output_is_a_service_by_one_declaration(
    broker: Broker, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    row = {"since": "2026-11-18T05:00:00Z", "revenue": 12.5, "orders": 3}
    await produce(broker, "revenue", {"tea": row})
    registry = ["--registry", f"zookeeper://{zookeeper.hosts}"]
    command = [FLOODMARK, "service", "tables", str(SHOP), "--port", str(free_port()), *registry]
    command += ["--bootstrap-server", broker.bootstrap]
    with ServerProcess(command, tmp_path / "tables.log") as process:
        process.wait_until(lambda: f"{SERVED} is served at" in process.output())
        call = [FLOODMARK, "service", "call", SERVED]
        found = json.loads(run_program([*call, "get", "tea", *registry]))
        assert found == {"category": "tea", **row, "class": "dev.floodmark.shop.Revenue"}
        assert json.loads(run_program([*call, "scan", "null", "10", *registry])) == [found]
        assert json.loads(run_program([*call, "size", *registry])) == 1
        assert process.stop() == 0


@dataclass
class Row:
    name: str
    number: int = 0


async def _until_found(reference: Any) -> Any:
    """The size, once the consumer has heard of the provider: its session is not ours."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await reference.invoke("size", [])
            except RpcError:
                await asyncio.sleep(0.01)


async def test_a_table_is_registered_when_it_has_caught_up_and_withdrawn_while_it_lags(
    broker: Broker, zookeeper: ZooKeeper
) -> None:
    count = 300
    await produce(broker, "rows", {str(number): {"number": number} for number in range(count)})
    table = Table("rows", row=Row, key="name", interface="dev.floodmark.sample.Rows", max_lag=100)
    registry = f"zookeeper://{zookeeper.hosts}"
    serving = table.serve(broker.bootstrap, registry=registry, port=free_port())
    shown: list[tuple[int, int]] = []

    def look(names: Sequence[str]) -> None:
        shown.append((len(names), len(serving.stored.rows)))

    session = ZooKeeperSession(zookeeper.hosts)
    await session.start()
    end = await session.watch_children(f"/dubbo/{table.interface}/providers", look)
    async with serving, Consumer(registry=registry) as consumer:
        await eventually(lambda: shown[-1][0] == 1)
        assert shown == [(0, 0), (1, count)]
        reference = await consumer.generic(table.interface)
        assert await reference.invoke("size", []) == count
        following: Any = serving._consumer
        lag = following.lag
        following.lag = lambda _partition: 51
        await eventually(lambda: shown[-1][0] == 0)
        following.lag = lag
        await eventually(lambda: shown[-1][0] == 1)
        assert await _until_found(reference) == count
    end()
    await session.close()
