"""The network of a test cluster: a proxy for each listener of each broker, and who is cut off.

Used by `cluster.py`, whose thread runs all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from floodmark.testing.cluster.proxy import EVERYBODY, Proxy

CLIENTS: Final = "PLAINTEXT"
BROKERS: Final = "BROKERS"
"""The two listeners of a broker."""

From = str | int | Iterable[int]


class ClusterNetwork:
    def __init__(self, brokers: Sequence[int]) -> None:
        self._proxies = {broker: {CLIENTS: Proxy(), BROKERS: Proxy()} for broker in brokers}

    def port(self, broker: int, listener: str = CLIENTS) -> int:
        return self._proxies[broker][listener].port

    def advertised(self, broker: int) -> str:
        """The setting `advertised.listeners`: the proxies."""
        proxies = self._proxies[broker].items()
        return ",".join(f"{name}://127.0.0.1:{proxy.port}" for name, proxy in proxies)

    async def open(self, broker: int, ports: Mapping[str, int]) -> None:
        """The broker listens on these ports."""
        for name, proxy in self._proxies[broker].items():
            await proxy.open(ports[name])

    async def refuse(self, brokers: Iterable[int]) -> None:
        """The brokers are going: nobody connects to them any more."""
        for broker in brokers:
            for proxy in self._proxies[broker].values():
                proxy.refuse()

    async def shut(self, brokers: Iterable[int]) -> None:
        """The brokers are gone."""
        for broker in brokers:
            for proxy in self._proxies[broker].values():
                await proxy.shut()

    async def close(self) -> None:
        for proxies in self._proxies.values():
            for proxy in proxies.values():
                await proxy.close()

    async def cut(self, broker: int, from_: From) -> None:
        if from_ == "clients":
            self._proxies[broker][CLIENTS].cut(EVERYBODY)
            return
        for other in self._others(broker, from_):
            self._proxies[broker][BROKERS].cut(other)
            if from_ != "followers":
                self._proxies[other][BROKERS].cut(broker)

    async def heal(self) -> None:
        for proxies in self._proxies.values():
            for proxy in proxies.values():
                proxy.heal()

    def _others(self, broker: int, from_: From) -> set[int]:
        others = self._proxies.keys() - {broker}
        if from_ in ("brokers", "followers"):
            return others
        wanted = {from_} if isinstance(from_, int | str) else set(from_)
        if not wanted <= others:
            known = '"clients", "brokers", "followers", "store" or the id of another broker'
            raise ValueError(f"cannot cut broker {broker} off from {from_!r}: use {known}")
        return others & wanted
