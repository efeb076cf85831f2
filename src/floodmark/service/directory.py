"""The providers of one interface in the registry, each connected on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from floodmark.service.configurators import apply_rules, parse_rules
from floodmark.service.dubbo.client import DubboClient
from floodmark.service.registry import Registry, parse_urls
from floodmark.service.url import ANY_VALUE, URL


class Provider:
    """One address that serves the interface."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.active = 0
        self._client: DubboClient | None = None
        self._connecting: asyncio.Task[DubboClient] | None = None
        self._is_retired = False

    @property
    def is_ready(self) -> bool:
        """False if it has asked us to stop calling it."""
        return self._client is None or not (self._client.is_open and self._client.is_readonly)

    async def client(self) -> DubboClient:
        """Its connection. Raises RpcError if it is unreachable.

        All calls that wait share one attempt, and fail with it.
        """
        if self._client is not None and self._client.is_open:
            return self._client
        if self._connecting is None:
            connecting = DubboClient.connect(self.url.host, self.url.port)
            self._connecting = asyncio.create_task(connecting)
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    def _connected(self, task: asyncio.Task[DubboClient]) -> None:
        self._connecting = None
        # Also marks the exception as retrieved: those who waited may have given up.
        if not task.cancelled() and task.exception() is None:
            self._client = task.result()

    def begun(self) -> None:
        self.active += 1

    def ended(self) -> None:
        self.active -= 1
        self._close_if_retired()

    def retire(self) -> None:
        """It left the registry: closes once no call is in progress."""
        self._is_retired = True
        self._close_if_retired()

    def _close_if_retired(self) -> None:
        if self._is_retired and not self.active:
            self.close()

    def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._client is not None:
            self._client.close()


class _Followed:
    """What one registry shows: its providers, under its rules."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._providers: list[URL] = []
        self._rules: list[URL] = []

    def rules_changed(self, names: Sequence[str]) -> None:
        self._rules = parse_rules(names)
        self._on_change()

    def providers_changed(self, names: Sequence[str]) -> None:
        self._providers = parse_urls(names)
        self._on_change()

    def urls(self) -> list[URL]:
        return [apply_rules(url, self._rules) for url in self._providers]


class Directory:
    """Follows the registry. A provider that leaves keeps its calls in progress."""

    def __init__(self, interface: str, group: str, version: str) -> None:
        self.interface = interface
        self._group = group
        self._version = version
        self._providers: dict[str, Provider] = {}
        self._followed: list[_Followed] = []
        self._ends: list[Callable[[], None]] = []

    async def follow(self, registry: Registry) -> None:
        """Providers of this registry count, besides those of others."""
        followed = _Followed(self._refresh)
        self._followed.append(followed)
        for category, listener in (
            ("configurators", followed.rules_changed),
            ("providers", followed.providers_changed),
        ):
            self._ends.append(await registry.subscribe(self.interface, category, listener))

    def add(self, url: URL) -> None:
        """Adds a provider that is known without a registry."""
        self._providers[url.address] = Provider(url)

    def providers(self) -> list[Provider]:
        return [item for item in self._providers.values() if item.is_ready]

    def _refresh(self) -> None:
        shown = [url for followed in self._followed for url in followed.urls()]
        wanted = {url.address: url for url in shown if self._is_wanted(url)}
        for address in self._providers.keys() - wanted.keys():
            self._providers.pop(address).retire()
        for address, url in wanted.items():
            known = self._providers.get(address)
            if known is None:
                self._providers[address] = Provider(url)
            else:
                known.url = url

    def _is_wanted(self, url: URL) -> bool:
        return (
            url.protocol == "dubbo"
            and _is_enabled(url)
            and self._group in (ANY_VALUE, url.get("group"))
            and self._version in (ANY_VALUE, url.get("version"))
        )

    def close(self) -> None:
        for end in self._ends:
            end()
        for provider in self._providers.values():
            provider.close()


def _is_enabled(url: URL) -> bool:
    """A rule of an operator may take a provider away from consumers."""
    if url.get("disabled"):
        return not url.get_bool("disabled", False)
    return url.get_bool("enabled", True)
