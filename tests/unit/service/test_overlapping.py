"""Exports, connections and registry changes that happen at the same time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from floodmark.service import Consumer, Service, method, service
from floodmark.service.api import settings_of
from floodmark.service.directory import Directory, Provider
from floodmark.service.dubbo.client import DubboClient
from floodmark.service.errors import RpcError
from floodmark.service.provider import Services
from floodmark.service.url import URL
from kit.process import free_port
from kit.waiting import eventually


@service("dev.shop.Greeter")
class Greeter:
    @method(inline=True)
    def hello(self, name: str) -> str:
        return f"hello {name}"


@service("dev.shop.Farewell")
class Farewell:
    @method(inline=True)
    def bye(self) -> str:
        return "bye"


async def test_services_exported_after_the_same_delay_share_their_port() -> None:
    services = Services()
    port = free_port()
    try:
        exports = [
            await services.export(target, settings_of(type(target), port=port, delay=20))
            for target in (Greeter(), Farewell())
        ]
        for export in exports:
            await export.exported()
        assert [export.urls[0].port for export in exports] == [port, port]
    finally:
        await services.close()


async def test_calls_that_wait_for_a_connection_fail_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that drops packets costs each of them one timeout, not one after the other."""
    attempts = 0

    async def connect(*_: Any) -> DubboClient:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0.1)
        raise RpcError("provider is unreachable", RpcError.NETWORK)

    monkeypatch.setattr(DubboClient, "connect", connect)
    provider = Provider(URL("dubbo", "192.0.2.1", 20880, "dev.shop.Greeter"))
    outcomes = await asyncio.gather(*(provider.client() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(outcome, RpcError) for outcome in outcomes)
    assert attempts == 1


async def test_a_provider_that_a_rule_takes_away_loses_its_connection() -> None:
    async with Service(Greeter(), port=-1).export() as export:
        directory = Directory("dev.shop.Greeter", "", "")
        followed: Any = _Registry()
        await directory.follow(followed)
        followed.show("providers", [str(export.urls[0].replaced(host="127.0.0.1"))])
        (provider,) = directory.providers()
        client = await provider.client()
        provider.begun()
        followed.show("providers", [])
        assert directory.providers() == []
        assert client.is_open  # for the call in progress
        provider.ended()
        await eventually(lambda: not client.is_open)
        directory.close()


class _Registry:
    def __init__(self) -> None:
        self._listeners: dict[str, Any] = {}

    async def subscribe(self, _interface: str, category: str, listener: Any) -> Any:
        self._listeners[category] = listener
        return lambda: None

    def show(self, category: str, names: list[str]) -> None:
        self._listeners[category](names)


@service("dev.shop.Slow")
class Slow:
    def wait(self) -> str:
        time.sleep(0.3)
        return "done"


async def test_calls_beyond_the_threads_are_refused_also_if_they_arrive_together() -> None:
    async with Service(Slow(), port=-1, threads=1).export() as export, Consumer() as consumer:
        url = f"dubbo://127.0.0.1:{export.urls[0].port}/dev.shop.Slow"
        slow = await consumer.refer(Slow, url=url, retries=0, timeout_ms=10_000)
        outcomes = await asyncio.gather(*(slow.wait() for _ in range(3)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, RpcError)]
    assert [error.code for error in refused] == [RpcError.LIMIT_EXCEEDED] * 2
    assert outcomes.count("done") == 1
