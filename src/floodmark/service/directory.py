"""The providers of one interface, as the registry shows them, each with a connection when used."""

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
        self._connecting = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        """Not if it has told us to call it no more."""
        return self._client is None or not (self._client.is_open and self._client.is_readonly)

    async def client(self) -> DubboClient:
        """Its connection; raises RpcError if it cannot be reached."""
        async with self._connecting:
            if self._client is None or not self._client.is_open:
                self._client = await DubboClient.connect(self.url.host, self.url.port)
            return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class Directory:
    """Follows the registry; a provider that leaves it keeps the calls that are under way."""

    def __init__(self, interface: str, group: str, version: str) -> None:
        self.interface = interface
        self._group = group
        self._version = version
        self._providers: dict[str, Provider] = {}
        self._names: Sequence[str] = ()
        self._rules: list[URL] = []
        self._ends: list[Callable[[], None]] = []

    async def follow(self, registry: Registry) -> None:
        self._ends.append(
            await registry.subscribe(self.interface, "configurators", self._rules_changed)
        )
        self._ends.append(
            await registry.subscribe(self.interface, "providers", self._providers_changed)
        )

    def add(self, url: URL) -> None:
        """A provider that is known without a registry."""
        self._providers[url.address] = Provider(url)

    def providers(self) -> list[Provider]:
        return [item for item in self._providers.values() if item.is_ready]

    def _rules_changed(self, names: Sequence[str]) -> None:
        self._rules = parse_rules(names)
        self._refresh()

    def _providers_changed(self, names: Sequence[str]) -> None:
        self._names = names
        self._refresh()

    def _refresh(self) -> None:
        wanted = {
            url.address: apply_rules(url, self._rules)
            for url in parse_urls(self._names)
            if self._is_wanted(url)
        }
        for address in self._providers.keys() - wanted.keys():
            # Its connection closes from the other end, when the calls under way are done.
            del self._providers[address]
        for address, url in wanted.items():
            known = self._providers.get(address)
            if known is None:
                self._providers[address] = Provider(url)
            else:
                known.url = url

    def _is_wanted(self, url: URL) -> bool:
        return (
            url.protocol == "dubbo"
            and url.get_bool("enabled", True)
            and self._group in (ANY_VALUE, url.get("group"))
            and self._version in (ANY_VALUE, url.get("version"))
        )

    def close(self) -> None:
        for end in self._ends:
            end()
        for provider in self._providers.values():
            provider.close()
