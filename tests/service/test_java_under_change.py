"""A Java consumer under load sees no failed call, whatever happens to its Python providers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from floodmark.service.api import settings_of
from floodmark.service.interface import interface_of
from floodmark.service.provider import Export, Services
from floodmark.service.url import encode
from floodmark.zookeeper.session import ZooKeeperSession
from kit.dubbo_jars import DUBBO_2, DUBBO_3
from kit.dubbo_program import command, compiled
from kit.exported import exported
from kit.process import free_port
from kit.sample_service import INTERFACE, Sample
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

PROGRAM = Path(__file__).parent / "java" / "SampleLoad.java"

pytestmark = pytest.mark.java


class Counting(Sample):
    """Counts the calls it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def hello(self, name: str) -> str:
        self.calls += 1
        return super().hello(name)

    async def is_called(self) -> None:
        until = self.calls + 100
        await eventually(lambda: self.calls >= until)


@pytest.mark.parametrize(
    ("version", "protocol"), [(DUBBO_2, "dubbo"), (DUBBO_3, "dubbo"), (DUBBO_3, "tri")]
)
async def test_no_call_fails(
    zookeeper: ZooKeeper, tmp_path: Path, version: str, protocol: str
) -> None:
    classes = compiled(version, interface_of(Sample, INTERFACE), PROGRAM)
    staying, leaving = Services(), Services()
    first, second = Counting(), Counting()
    export = await serve(staying, first, zookeeper, protocol)
    await serve(leaving, second, zookeeper, protocol)
    options = ("--group", "load", "--protocol", protocol)
    with exported(zookeeper, tmp_path, INTERFACE, *options) as third:
        load = await asyncio.create_subprocess_exec(
            *command(version, classes, "SampleLoad", [f"zookeeper://{zookeeper.hosts}"]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        calls: dict[str, int] = {}
        await second.is_called()
        await first.is_called()
        await change_by_rule(zookeeper, export)
        await first.is_called()
        calls["rule"] = first.calls
        await expire_session(zookeeper, staying)
        await first.is_called()
        calls["expired"] = first.calls
        zookeeper.stop()
        await first.is_called()
        await asyncio.to_thread(zookeeper.start)
        await first.is_called()
        calls["restarted"] = first.calls
        if protocol == "dubbo":
            # Java's triple does not try another provider when a connection breaks.
            third.kill()
            await first.is_called()
        await leaving.close()
        await first.is_called()
        calls["left"] = first.calls
        output, _ = await asyncio.wait_for(load.communicate(b""), 20)
    await staying.close()
    # Dubbo logs the connections that it repairs between the lines of the program.
    lines = output.decode().splitlines()
    assert any(line.startswith("calls ") for line in lines), output.decode()
    assert [line for line in lines if line.startswith("failed ")] == [], (calls, output.decode())


async def serve(services: Services, target: Sample, zookeeper: ZooKeeper, protocol: str) -> Export:
    settings = settings_of(
        Sample,
        interface=INTERFACE,
        registry=f"zookeeper://{zookeeper.hosts}",
        protocol=protocol,
        port=free_port(),
        group="load",
    )
    return await services.export(target, settings, interface_of(Sample, INTERFACE))


async def change_by_rule(zookeeper: ZooKeeper, export: Export) -> None:
    session = ZooKeeperSession(zookeeper.hosts)
    await session.start()
    rule = f"override://0.0.0.0/{INTERFACE}?category=configurators&group=load&weight=77"
    path = f"/dubbo/{INTERFACE}/configurators/{encode(rule)}"
    for _ in range(3):
        await session.create(path)
        await eventually(lambda: export.registered_urls[0].get("weight") == "77")
        await session.delete(path)
        await eventually(lambda: export.registered_urls[0].get("weight") == "")
    await session.close()


async def expire_session(zookeeper: ZooKeeper, services: Services) -> None:
    registry: Any = next(iter(services._registries.values()))
    session = registry._session
    twin = KazooClient(zookeeper.hosts, client_id=session._client.client_id, timeout=2)
    await asyncio.to_thread(twin.start, 10)
    await asyncio.to_thread(twin.stop)
    twin.close()
    await eventually(lambda: session.sessions == 2)
