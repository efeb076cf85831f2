"""Apache Dubbo's own consumers find the service in ZooKeeper and call everything it has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from floodmark.service.api import settings_of
from floodmark.service.interface import interface_of
from floodmark.service.provider import Services
from floodmark.service.settings import Settings
from kit.dubbo_jars import DUBBO_2, DUBBO_3
from kit.dubbo_program import command, compiled
from kit.process import free_port
from kit.running import run
from kit.sample_service import INTERFACE, Sample
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

PROGRAM = Path(__file__).parent / "java" / "SampleConsumer.java"

pytestmark = pytest.mark.java


@pytest.mark.parametrize(
    ("version", "protocol"), [(DUBBO_2, "dubbo"), (DUBBO_3, "dubbo"), (DUBBO_3, "tri")]
)
async def test_java_calls_everything(zookeeper: ZooKeeper, version: str, protocol: str) -> None:
    classes = compiled(version, interface_of(Sample, INTERFACE), PROGRAM)
    registry = f"zookeeper://{zookeeper.hosts}"
    sample = Sample()
    async with Services() as services:
        protocols = [{"name": protocol, "port": free_port()}]
        export = await services.export(
            sample, settings(registry, token="true", protocols=protocols)
        )
        direct = f"{protocol}://127.0.0.1:{export.urls[0].port}/{INTERFACE}"
        output = await run(command(version, classes, "SampleConsumer", [registry, direct]))
        assert "all holds" in output
        assert sample.one_way == ["from java"]


@pytest.mark.parametrize(
    ("heartbeat_ms", "idle_ms"),
    [
        (1_000, 8_000),
        pytest.param(60_000, 190_000, marks=[pytest.mark.soak, pytest.mark.timeout(300)]),
    ],
)
@pytest.mark.parametrize("version", [DUBBO_2, DUBBO_3])
async def test_heartbeats_keep_an_idle_connection(
    zookeeper: ZooKeeper, version: str, heartbeat_ms: int, idle_ms: int
) -> None:
    """Idle for three times as long as it takes to give a silent peer up."""
    classes = compiled(version, interface_of(Sample, INTERFACE), PROGRAM)
    registry = f"zookeeper://{zookeeper.hosts}"
    async with Services() as services:
        await services.export(Sample(), settings(registry, heartbeat=heartbeat_ms))
        (server,) = services._servers.values()
        program = command(version, classes, "SampleConsumer", [registry, "idle", str(idle_ms)])
        running = asyncio.create_task(run(program, timeout_seconds=60 + idle_ms / 1000))
        await eventually(lambda: bool(server.connections) or running.done())
        (connection,) = server.connections
        seen = []
        while not running.done():
            seen.append(connection in server.connections)
            await asyncio.wait([running], timeout=0.5)
        await running
        # The last look may come after the consumer's end.
        assert all(seen[:-2]) and len(seen) > 6


def settings(registry: str, **options: Any) -> Settings:
    return settings_of(
        Sample,
        interface=INTERFACE,
        registry=registry,
        port=free_port(),
        group="java",
        version="1.0",
        **options,
    )
