"""Apache Dubbo's own consumers find the service in ZooKeeper and call everything it has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from floodmark.service.api import settings_of
from floodmark.service.interface import interface_of
from floodmark.service.provider import Services
from floodmark.service.server import ServedConnection
from floodmark.service.settings import Settings
from kit.dubbo_jars import DUBBO_2, DUBBO_3
from kit.dubbo_program import command, compiled
from kit.process import free_port
from kit.running import run
from kit.sample_service import INTERFACE, Sample
from kit.zookeeper import ZooKeeper

PROGRAM = Path(__file__).parent / "java" / "SampleConsumer.java"

pytestmark = pytest.mark.java

DUBBO_GO_CONNECTIONS = 16
"""How many it opens at once."""

CONSUMERS = [(DUBBO_2, "dubbo"), (DUBBO_3, "dubbo"), (DUBBO_3, "tri")]


@pytest.mark.parametrize(("version", "protocol"), CONSUMERS)
async def test_java_calls_everything(zookeeper: ZooKeeper, version: str, protocol: str) -> None:
    classes = compiled(version, interface_of(Sample, INTERFACE), PROGRAM)
    registry = f"zookeeper://{zookeeper.hosts}"
    sample = Sample()
    async with Services() as services:
        protocols = [{"name": protocol, "port": free_port()}]
        export = await services.export(
            sample, settings(registry, token="true", protocols=protocols)
        )
        opened = connections_of(services)
        direct = f"{protocol}://127.0.0.1:{export.urls[0].port}/{INTERFACE}"
        output = await run(command(version, classes, "SampleConsumer", [registry, direct]))
        assert "all holds" in output
        assert sample.one_way == ["from java"]
        # Not one of the failures has ended the connection.
        assert len(opened) == 1


@pytest.mark.parametrize(("version", "protocol"), CONSUMERS)
async def test_heartbeats_keep_an_idle_connection(
    zookeeper: ZooKeeper, version: str, protocol: str
) -> None:
    """Idle for longer than it takes to give a silent peer up."""
    await idle_in_java(zookeeper, version, protocol, idle_ms=8_000, heartbeat=1_000)


@pytest.mark.go
@pytest.mark.idles
@pytest.mark.timeout(300)
async def test_three_minutes_of_idling_with_the_default_heartbeat(
    zookeeper: ZooKeeper, go_consumer: Path
) -> None:
    """All consumers at once."""
    idle_ms = 190_000
    await asyncio.gather(
        *(idle_in_java(zookeeper, *consumer, idle_ms=idle_ms) for consumer in CONSUMERS),
        idle_in_go(zookeeper, go_consumer, idle_ms),
    )


async def idle_in_java(
    zookeeper: ZooKeeper, version: str, protocol: str, idle_ms: int, **options: Any
) -> None:
    classes = compiled(version, interface_of(Sample, INTERFACE), PROGRAM)
    registry = f"zookeeper://{zookeeper.hosts}?group=idle-{version}-{protocol}"
    program = command(version, classes, "SampleConsumer", [registry, "idle", str(idle_ms)])
    protocols = [{"name": protocol, "port": free_port()}]
    await idle(program, settings(registry, protocols=protocols, **options), idle_ms)


async def idle_in_go(zookeeper: ZooKeeper, go_consumer: Path, idle_ms: int) -> None:
    registry = f"zookeeper://{zookeeper.hosts}?group=idle-go"
    exported = settings_of(Sample, interface=INTERFACE, registry=registry, port=free_port())
    program = [str(go_consumer), zookeeper.hosts, "idle-go", str(idle_ms)]
    await idle(program, exported, idle_ms, DUBBO_GO_CONNECTIONS)


async def idle(program: list[str], exported: Settings, idle_ms: int, connections: int = 1) -> None:
    """A consumer calls, waits and calls again, all over the same connections."""
    async with Services() as services:
        await services.export(Sample(), exported)
        opened = connections_of(services)
        await run(program, timeout_seconds=60 + idle_ms / 1000)
        assert len(opened) == connections


def connections_of(services: Services) -> list[ServedConnection]:
    """Every connection that consumers open from now on."""
    (server,) = services._servers.values()
    found: list[ServedConnection] = []
    accept = server.opened

    def opened(connection: ServedConnection) -> bool:
        found.append(connection)
        return accept(connection)

    server.opened = opened
    return found


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
