"""Dubbo's registry in ZooKeeper: `/dubbo/<interface>/{providers,consumers,configurators}/<URL>`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from floodmark.service.errors import ConfigError, RegistryError
from floodmark.service.url import URL, decode, encode
from floodmark.zookeeper.session import ZooKeeperSession, ZooKeeperUnavailable

DEFAULT_ROOT = "dubbo"
DEFAULT_PORT = 2181
DEFAULT_SESSION_MS = 60_000
DEFAULT_CONNECT_MS = 15_000


class Registry:
    """One ensemble, and what we have registered there."""

    def __init__(self, url: URL) -> None:
        """`url` is a registry URL, such as zookeeper://host:2181?backup=host:2181."""
        kind = url.get("registry") or url.protocol
        if kind != "zookeeper":
            raise ConfigError(f"registry {kind!r} is not supported: use zookeeper://host:port")
        self.url = url
        self._root = "/" + url.get("group", DEFAULT_ROOT).strip("/")
        addresses = [f"{url.host}:{url.port or DEFAULT_PORT}"]
        addresses += [part.strip() for part in url.get("backup").split(",") if part.strip()]
        self._session = ZooKeeperSession(
            ",".join(addresses),
            session_timeout_seconds=url.get_int("session", DEFAULT_SESSION_MS) / 1000,
        )

    @property
    def is_connected(self) -> bool:
        return self._session.is_connected

    async def start(self) -> None:
        timeout_ms = self.url.get_int("timeout", DEFAULT_CONNECT_MS)
        try:
            await self._session.start(timeout_ms / 1000)
        except ZooKeeperUnavailable as error:
            raise RegistryError(str(error)) from error

    async def close(self) -> None:
        await self._session.close()

    async def register(self, url: URL, category: str = "providers") -> None:
        """Registers a URL: until the session ends if it is dynamic, otherwise until `unregister`.

        Retries while ZooKeeper is unreachable.
        """
        path = self._node(url, category)
        await self._session.hold(path, ephemeral=url.get_bool("dynamic", True))

    async def unregister(self, url: URL, category: str = "providers") -> None:
        path = self._node(url, category)
        await self._session.release(path)

    async def subscribe(
        self, interface: str, category: str, listener: Callable[[Sequence[str]], None]
    ) -> Callable[[], None]:
        """Calls the listener with the names below a category, now and when they change."""
        return await self._session.watch_children(self._folder(interface, category), listener)

    async def lookup(self, interface: str, category: str = "providers") -> list[URL]:
        """The URLs below a category."""
        try:
            names = await self._session.children(self._folder(interface, category))
        except ZooKeeperUnavailable as error:
            raise RegistryError(str(error)) from error
        return parse_urls(names)

    async def interfaces(self) -> list[str]:
        """All interfaces with providers or consumers."""
        try:
            names = await self._session.children(self._root)
        except ZooKeeperUnavailable as error:
            raise RegistryError(str(error)) from error
        others = {"metadata", "config", "mapping"}
        return sorted(decode(name) for name in names if name not in others)

    async def publish_metadata(self, url: URL, definition: str) -> None:
        """Publishes the service's definition, for consoles and testing tools."""
        parts = [url.interface, url.get("version"), url.get("group"), "provider"]
        parts.append(url.get("application"))
        path = "/".join(part for part in parts if part)
        try:
            await self._session.put(f"{self._root}/metadata/{path}", definition.encode())
        except ZooKeeperUnavailable as error:
            raise RegistryError(str(error)) from error

    def _folder(self, interface: str, category: str) -> str:
        return f"{self._root}/{encode(interface)}/{category}"

    def _node(self, url: URL, category: str) -> str:
        return f"{self._folder(url.interface, category)}/{encode(str(url))}"


def parse_urls(names: Sequence[str]) -> list[URL]:
    """Parses URLs from node names. Skips names that are not URLs."""
    urls = []
    for name in names:
        try:
            urls.append(URL.parse(decode(name)))
        except ConfigError:
            continue
    return urls
