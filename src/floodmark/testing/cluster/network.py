"""A test cluster's network: a proxy per listener of each broker, and the current partitions.

If the brokers use ZooKeeper, each reaches it through its own proxies.

Used by `cluster.py`, which runs it on its thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from floodmark.testing.cluster.proxy import EVERYBODY, Proxy

CLIENTS: Final = "PLAINTEXT"
BROKERS: Final = "BROKERS"
"""The two listeners of a broker."""

ZOOKEEPER_PORT: Final = 2181

From = str | int | Iterable[int]


def _host_and_port(server: str) -> tuple[str, int]:
    """Settings may leave out the port, and put an IPv6 address in brackets."""
    host, _, port = server.rpartition(":")
    if not host or port.endswith("]"):
        host, port = server, str(ZOOKEEPER_PORT)
    return host.removeprefix("[").removesuffix("]"), int(port)


class ClusterNetwork:
    def __init__(self, brokers: Sequence[int], zookeeper: str) -> None:
        """`zookeeper` is `host:port,host:port/chroot`, or empty."""
        self._proxies = {broker: {CLIENTS: Proxy(), BROKERS: Proxy()} for broker in brokers}
        hosts, slash, chroot = zookeeper.partition("/")
        self._servers = [_host_and_port(one.strip()) for one in filter(None, hosts.split(","))]
        self._chroot = slash + chroot
        self._stores = {broker: [Proxy() for _ in self._servers] for broker in brokers}

    def port(self, broker: int, listener: str = CLIENTS) -> int:
        return self._proxies[broker][listener].port

    def advertised(self, broker: int) -> str:
        """The setting `advertised.listeners`: the proxies."""
        proxies = self._proxies[broker].items()
        return ",".join(f"{name}://127.0.0.1:{proxy.port}" for name, proxy in proxies)

    def zookeeper(self, broker: int) -> str:
        """The setting `zookeeper.connect` of one broker: the proxies."""
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self._stores[broker])
        return hosts + self._chroot

    async def open_stores(self) -> None:
        for proxies in self._stores.values():
            for proxy, (host, port) in zip(proxies, self._servers, strict=True):
                await proxy.open(port, host)

    async def open(self, broker: int, ports: Mapping[str, int]) -> None:
        """Forwards to the broker, which listens on these ports."""
        for name, proxy in self._proxies[broker].items():
            await proxy.open(ports[name])

    async def refuse(self, brokers: Iterable[int]) -> None:
        """Refuses new connections, because the brokers are stopping."""
        for broker in brokers:
            for proxy in self._proxies[broker].values():
                proxy.refuse()

    async def shut(self, brokers: Iterable[int]) -> None:
        """Closes all connections, because the brokers are gone."""
        for broker in brokers:
            for proxy in self._proxies[broker].values():
                await proxy.shut()

    async def close(self) -> None:
        for proxy in self._all():
            await proxy.close()

    async def cut(self, broker: int, from_: From) -> None:
        if from_ == "clients":
            self._proxies[broker][CLIENTS].cut(EVERYBODY)
            return
        if from_ == "store":
            for proxy in self._stores[broker]:
                proxy.cut(EVERYBODY)
            return
        for other in self._others(broker, from_):
            self._proxies[broker][BROKERS].cut(other)
            if from_ != "followers":
                self._proxies[other][BROKERS].cut(broker)

    async def heal(self) -> None:
        for proxy in self._all():
            proxy.heal()

    def _all(self) -> Iterator[Proxy]:
        for proxies in self._proxies.values():
            yield from proxies.values()
        for stores in self._stores.values():
            yield from stores

    def _others(self, broker: int, from_: From) -> set[int]:
        others = self._proxies.keys() - {broker}
        if from_ in ("brokers", "followers"):
            return others
        wanted = {from_} if isinstance(from_, int | str) else set(from_)
        if not wanted <= others:
            known = '"clients", "brokers", "followers", "store" or the id of another broker'
            raise ValueError(f"cannot cut broker {broker} off from {from_!r}: use {known}")
        return others & wanted
