"""Exports in a real ZooKeeper: what is registered when, rules, and providers that come and go."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from floodmark.service.api import settings_of
from floodmark.service.consumer import Consumer
from floodmark.service.errors import RpcError
from floodmark.service.provider import Export, Services
from floodmark.service.registry import Registry
from floodmark.service.url import URL, decode, encode
from floodmark.zookeeper.session import ZooKeeperSession
from kit.process import free_port
from kit.sample_service import Sample
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

pytestmark = pytest.mark.java


class Place:
    """A registry root of its own for each test, and a session that looks at it from outside."""

    def __init__(self, zookeeper: ZooKeeper, session: ZooKeeperSession, name: str) -> None:
        self.interface = f"dev.floodmark.sample.{name}"
        self.address = f"zookeeper://{zookeeper.hosts}?session=2000"
        self._session = session
        self.zookeeper = zookeeper

    async def export(self, services: Services, greeting: str = "hello", **options: Any) -> Export:
        options = {"registry": self.address, "port": free_port(), **options}
        settings = settings_of(Sample, interface=self.interface, **options)
        return await services.export(Sample(greeting), settings)

    async def providers(self) -> list[URL]:
        names = await self._session.children(f"/dubbo/{self.interface}/providers")
        return [URL.parse(decode(name)) for name in names]

    async def add_rule(self, rule: str) -> str:
        path = f"/dubbo/{self.interface}/configurators/{encode(rule)}"
        await self._session.create(path)
        return path

    async def owners(self) -> list[int]:
        """The sessions that the providers' nodes belong to; 0 is none."""
        folder = f"/dubbo/{self.interface}/providers"
        client: Any = self._session._client
        names = await self._session.children(folder)
        found = [await asyncio.to_thread(client.exists, f"{folder}/{name}") for name in names]
        return [stat.ephemeralOwner for stat in found]

    async def watch(self, listener: Callable[[Sequence[str]], None]) -> Callable[[], None]:
        path = f"/dubbo/{self.interface}/providers"
        return await self._session.watch_children(path, listener)

    async def remove_rule(self, path: str) -> None:
        await self._session.delete(path)

    async def metadata(self, application: str) -> dict[str, Any]:
        data = await self._session.get(f"/dubbo/metadata/{self.interface}/provider/{application}")
        found: dict[str, Any] = json.loads(data or b"{}")
        return found


@pytest_asyncio.fixture
async def place(zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    session = ZooKeeperSession(zookeeper.hosts)
    await session.start()
    yield Place(
        zookeeper, session, "S" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    )
    await session.close()


class Load:
    """Calls one after the other, until told to stop; every failure is kept."""

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy
        self._task = asyncio.create_task(self._run())
        self._stop = False
        self.answers: dict[str, int] = {}
        self.count = 0

    async def _run(self) -> None:
        while not self._stop:
            answer = await self._proxy.hello("x")
            self.count += 1
            self.answers[answer] = self.answers.get(answer, 0) + 1

    async def more(self, count: int = 50) -> None:
        until = self.count + count
        await eventually(lambda: self._task.done() or self.count >= until)
        if self._task.done():
            await self._task

    async def end(self) -> None:
        self._stop = True
        await self._task


async def test_an_export_is_registered_and_withdrawn(place: Place) -> None:
    async with Services() as services:
        export = await place.export(services, metadata_report=place.address, application="shop")
        (url,) = await place.providers()
        assert url == export.registered_urls[0]
        assert url.get("application") == "shop" and "bind.port" not in url.parameters
        assert (await place.metadata("shop"))["canonicalName"] == place.interface
    assert await place.providers() == []


async def test_a_consumer_finds_it(place: Place) -> None:
    async with Services() as services, Consumer(registry=place.address) as consumer:
        await place.export(services, token="true", group="g", version="1.0")
        proxy = await consumer.refer(Sample, place.interface, group="g", version="1.0")
        assert await proxy.hello("x") == "hello x"
        other = await consumer.refer(Sample, place.interface)
        with pytest.raises(RpcError, match="No provider available"):
            await other.hello("x")
        reference = await consumer.generic(place.interface, group="g", version="1.0")
        assert await reference.invoke("hello", ["g"]) == "hello g"


async def test_a_delayed_export_comes_later(place: Place) -> None:
    async with Services() as services:
        export = await place.export(services, delay=300)
        assert await place.providers() == [] and export.urls == []
        await export.exported()
        assert len(await place.providers()) == 1


@pytest.mark.parametrize(
    ("options", "registered", "local"),
    [
        ({"scope": "none"}, 0, False),
        ({"scope": "local"}, 0, True),
        ({"scope": "remote"}, 1, False),
        ({}, 1, True),
        ({"export": False}, 0, False),
        ({"register": False}, 0, True),
        ({"provider": {"export": False}}, 0, False),
    ],
)
async def test_scopes(place: Place, options: dict[str, Any], registered: int, local: bool) -> None:
    async with Services() as services:
        await place.export(services, **options)
        assert len(await place.providers()) == registered
        assert (place.interface in services.local) is local


async def test_consumers_in_the_process_need_no_network(place: Place) -> None:
    async with Services() as services, Consumer(services=services) as consumer:
        await place.export(services, scope="local", registry=(), token="secret")
        proxy = await consumer.refer(Sample, place.interface)
        assert await proxy.hello("x") == "hello x"
        assert await proxy.hello_async("x") == "hello x"
        assert (await proxy.hello_in_thread("x")).startswith("hello x")


async def test_several_protocols_and_registries(place: Place) -> None:
    ports = [free_port(), free_port()]
    protocols = [{"name": "dubbo", "port": ports[0]}, {"name": "tri", "port": ports[1]}]
    second = place.address + "&group=other"
    async with Services() as services:
        export = await place.export(
            services, protocols=protocols, registry=[place.address, second, "N/A"]
        )
        assert {url.port for url in await place.providers()} == set(ports)
        assert len(export.registered_urls) == 4
        registry = Registry(URL.parse(second))
        await registry.start()
        assert {url.port for url in await registry.lookup(place.interface)} == set(ports)
        await registry.close()


async def test_two_registries_show_it_and_one_that_is_not_to_register_does_not(
    place: Place, tmp_path: Path
) -> None:
    with ZooKeeper(tmp_path) as other, ZooKeeper(tmp_path / "quiet") as quiet:
        second, third = (f"zookeeper://{item.hosts}" for item in (other, quiet))
        async with Services() as services:
            registries = [place.address, second, f"{third}?register=false"]
            await place.export(services, registry=registries)
            # Providers of all its registries count, whichever tells last.
            for asked, count in (([second], 1), ([third], 0), ([second, place.address, third], 1)):
                async with Consumer(registry=asked) as consumer:
                    proxy = await consumer.refer(Sample, place.interface)
                    assert len(proxy.reference.addresses) == count
                    if count:
                        assert await proxy.hello("x") == "hello x"


async def test_the_server_is_open_before_the_registry_shows_it(place: Place) -> None:
    port = free_port()
    reached: list[bool] = []

    def look(names: Sequence[str]) -> None:
        for _ in names:
            with socket.create_connection(("127.0.0.1", port), 1):
                reached.append(True)

    end = await place.watch(look)
    async with Services() as services:
        await place.export(services, port=port)
        await eventually(lambda: reached)
    end()


async def test_the_session_keeps_an_idle_registration(place: Place) -> None:
    """Idle for three times as long as ZooKeeper waits for a silent session."""
    async with Services() as services:
        export = await place.export(services)
        registry: Any = next(iter(services._registries.values()))
        await asyncio.sleep(6)
        assert await place.providers() == export.registered_urls
        assert registry._session.sessions == 1


async def test_a_provider_that_is_not_dynamic_is_registered_until_it_is_unexported(
    place: Place,
) -> None:
    async with Services() as services:
        export = await place.export(services, dynamic=False)
        assert await place.providers() == export.registered_urls
        assert await place.owners() == [0]
    assert await place.providers() == []


async def test_a_rule_takes_a_provider_away_from_consumers(place: Place) -> None:
    async with Services() as services, Consumer(registry=place.address) as consumer:
        await place.export(services)
        proxy = await consumer.refer(Sample, place.interface)
        assert await proxy.hello("x") == "hello x"
        path = await place.add_rule(f"override://0.0.0.0/{place.interface}?disabled=true")
        await eventually(lambda: not proxy.reference.addresses)
        await place.remove_rule(path)
        await eventually(lambda: proxy.reference.addresses)
        assert await proxy.hello("x") == "hello x"


async def test_rules_come_and_go_under_load_without_a_failed_call(place: Place) -> None:
    async with Services() as services, Consumer(registry=place.address) as consumer:
        export = await place.export(services)
        proxy = await consumer.refer(Sample, place.interface, retries=0)
        load = Load(proxy)
        await load.more()
        before = export.registered_urls[0]
        for _ in range(3):
            rule = f"override://0.0.0.0/{place.interface}?category=configurators&timeout=7777"
            path = await place.add_rule(rule)
            await eventually(lambda: export.registered_urls[0].get("timeout") == "7777")
            await load.more()
            await place.remove_rule(path)
            await eventually(lambda: export.registered_urls == [before])
            await load.more()
        await load.end()
        assert await place.providers() == [before]


async def test_a_rule_changes_the_limit_of_calls_at_once(place: Place) -> None:
    async with Services() as services, Consumer(registry=place.address) as consumer:
        export = await place.export(services)
        proxy = await consumer.refer(Sample, place.interface, retries=0, timeout_ms=9000)
        # One that makes no sense changes nothing, and keeps no later one from being seen.
        await place.add_rule(f"override://0.0.0.0/{place.interface}?executes=many")
        await eventually(lambda: export.registered_urls[0].get("executes") == "many")
        assert await proxy.hello("x") == "hello x"
        await place.add_rule(f"override://0.0.0.0/{place.interface}?pause.executes=1")
        await eventually(lambda: export.registered_urls[0].get("pause.executes") == "1")
        slow = asyncio.create_task(proxy.pause(600))
        await asyncio.sleep(0.05)
        with pytest.raises(RpcError, match="limited"):
            await proxy.pause(1)
        assert await slow == "slept"


async def test_one_of_two_providers_stops_without_a_failed_call(place: Place) -> None:
    async with Services() as staying, Consumer(registry=place.address) as consumer:
        leaving = Services()
        await place.export(staying, "staying")
        await place.export(leaving, "leaving")
        proxy = await consumer.refer(Sample, place.interface, retries=0, loadbalance="roundrobin")
        await eventually(lambda: len(proxy.reference.addresses) == 2)
        load = Load(proxy)
        await load.more(200)
        assert set(load.answers) == {"staying x", "leaving x"}
        await leaving.close()
        assert len(await place.providers()) == 1
        await load.more()
        await load.end()


async def test_an_expired_session_registers_again(place: Place) -> None:
    async with Services() as services:
        export = await place.export(services)
        registry: Any = next(iter(services._registries.values()))
        client = registry._session._client
        twin = KazooClient(place.zookeeper.hosts, client_id=client.client_id, timeout=2)
        await asyncio.to_thread(twin.start, 10)
        await asyncio.to_thread(twin.stop)
        twin.close()
        await eventually(lambda: registry._session.sessions == 2)

        async def is_back() -> bool:
            return await place.providers() == export.registered_urls

        await eventually(is_back)


async def test_a_restarted_zookeeper_finds_providers_again(
    namespace: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ZooKeeper(tmp_path_factory.mktemp("restarted")) as zookeeper:
        address = f"zookeeper://{zookeeper.hosts}?session=2000"
        interface = "dev.floodmark.sample.Restarted"
        settings = settings_of(Sample, interface=interface, registry=address, port=free_port())
        async with Services() as services, Consumer(registry=address) as consumer:
            await services.export(Sample(), settings)
            proxy = await consumer.refer(Sample, interface)
            load = Load(proxy)
            await load.more()
            zookeeper.stop()
            await load.more()
            await asyncio.to_thread(zookeeper.start)
            await load.more()
            registry = Registry(URL.parse(address))
            await registry.start()

            async def is_there() -> bool:
                return len(await registry.lookup(interface)) == 1

            await eventually(is_there)
            await registry.close()
            await load.end()
