"""`Service(...).export()` in programs with and without an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from floodmark.service import Consumer, Service, ServiceError, method, service
from floodmark.service.errors import ConfigError, RegistryError
from floodmark.service.registry import Registry
from kit.process import free_port


@service("dev.shop.Greeter")
class Greeter:
    @method(inline=True)
    def hello(self, name: str) -> str:
        return f"hello {name}"


async def call(port: int) -> str:
    async with Consumer() as consumer:
        url = f"dubbo://127.0.0.1:{port}/dev.shop.Greeter"
        greeter = await consumer.refer(Greeter, url=url, retries=0)
        answer: str = await greeter.hello("x")
        return answer


async def test_with_a_loop() -> None:
    async with Service(Greeter(), port=-1).export() as export:
        assert await call(export.urls[0].port) == "hello x"


async def test_an_address_alone_means_the_interface_s_own_path() -> None:
    async with Service(Greeter(), port=-1).export() as export, Consumer() as consumer:
        address = f"dubbo://127.0.0.1:{export.urls[0].port}"
        greeter = await consumer.refer(Greeter, url=address, retries=0)
        assert await greeter.hello("x") == "hello x"


def test_without_a_loop() -> None:
    with Service(Greeter(), port=-1).export() as export:
        assert asyncio.run(call(export.urls[0].port)) == "hello x"


def test_a_port_in_use_is_an_error() -> None:
    port = free_port()
    with (
        Service(Greeter(), port=port).export(),
        pytest.raises(ServiceError, match=f"port {port} could not be bound"),
        Service(Greeter(), port=port).export(),
    ):
        pass


async def test_an_export_happens_once() -> None:
    async with Service(Greeter(), port=-1).export() as export:
        await export.start()
        assert len(export.urls) == 1
        await export.unexport()
        with pytest.raises(ServiceError, match="cannot be exported again"):
            await export.start()


async def test_an_export_that_is_ended_before_its_delay_never_happens() -> None:
    async with Service(Greeter(), port=-1, delay=60_000).export() as export:
        await asyncio.wait_for(export.unexport(), 5)
        await export.exported()
        assert export.urls == []


async def test_a_delayed_export_that_fails_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with Service(Greeter(), port=-1).export() as first:
        port = first.urls[0].port
        async with Service(Greeter(), port=port, delay=1).export() as second:
            with pytest.raises(ServiceError, match="could not be bound"):
                await second.exported()
    assert f"could not be exported: port {port} could not be bound" in caplog.text


@pytest.mark.parametrize("options", [{"delay": "soon"}, {"provider": {"port": "any"}}])
async def test_settings_that_are_no_numbers_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="that is no whole number"):
        async with Service(Greeter(), **options).export():
            pass


async def test_any_group_and_version_may_be_asked_for() -> None:
    async with (
        Service(Greeter(), port=-1, group="g", version="1.0").export() as export,
        Consumer() as consumer,
    ):
        url = f"dubbo://127.0.0.1:{export.urls[0].port}?group=g&version=1.0"
        greeter = await consumer.refer(Greeter, url=url, group="*", version="*", retries=0)
        assert await greeter.hello("x") == "hello x"


async def test_a_consumer_that_cannot_start_leaves_no_registry_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_now: list[str] = []

    async def start(registry: Registry) -> None:
        if registry.url.port == 2:
            raise RegistryError("no ZooKeeper answers")
        open_now.append(registry.url.address)

    async def close(registry: Registry) -> None:
        open_now.remove(registry.url.address)

    monkeypatch.setattr(Registry, "start", start)
    monkeypatch.setattr(Registry, "close", close)
    with pytest.raises(RegistryError):
        async with Consumer(registry=["zookeeper://127.0.0.1:1", "zookeeper://127.0.0.1:2"]):
            pass
    assert open_now == []
