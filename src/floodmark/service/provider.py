"""The services of one process: exports objects, and owns their servers and registries.

The composition root of this package. `Services` may hold many services; `Service` is a shortcut for
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import Any, Self
from uuid import uuid4

from floodmark.clock import Clock, SystemClock
from floodmark.service.closing import ClosedAtExit
from floodmark.service.config import (
    Surroundings,
    provider_url,
    registry_urls,
    with_registry,
)
from floodmark.service.dubbo.server import DubboServer
from floodmark.service.errors import ConfigError, ServiceError
from floodmark.service.exporter import Registration
from floodmark.service.interface import Interface, definition_json, interface_of
from floodmark.service.invoker import Invoker
from floodmark.service.local_address import free_port, local_host
from floodmark.service.loop_thread import LoopThread
from floodmark.service.registry import Registry
from floodmark.service.server import DEFAULT_THREADS, HEARTBEAT_SECONDS, ServiceServer
from floodmark.service.settings import Settings, Values, number_of, text_of
from floodmark.service.url import ANY_HOST, URL

logger = logging.getLogger(__name__)


class Services(ClosedAtExit):
    """What this process exports."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._servers: dict[tuple[str, int], ServiceServer] = {}
        self._registries: dict[str, Registry] = {}
        self._exports: list[Export] = []
        # Delayed exports may begin at once, and share servers and registries.
        self._binding = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self.local: dict[str, Invoker] = {}
        """Services that consumers in this process call directly (injvm), by service key."""

    async def __aenter__(self) -> Self:
        return self

    async def export(
        self, target: object, settings: Settings, interface: Interface | None = None
    ) -> Export:
        """Exports an object, immediately or after its `delay`."""
        found = interface or interface_of(type(target), _interface_name(target, settings))
        export = Export(self, target, settings, found)
        self._exports.append(export)
        await export.start()
        return export

    async def close(self) -> None:
        """Withdraws everything, waits for calls to finish, and closes."""
        exports, self._exports = self._exports, []
        await asyncio.gather(*(export.leave() for export in exports))
        await asyncio.gather(*(server.stop() for server in self._servers.values()))
        self._servers.clear()
        for registry in self._registries.values():
            await registry.close()
        self._registries.clear()

    async def server(self, url: URL) -> ServiceServer:
        """The server at a URL's address, bound once for all services."""
        host = ANY_HOST if url.get_bool("anyhost", False) else url.get("bind.ip")
        address = (host, url.get_int("bind.port", url.port))
        async with self._binding:
            server = self._servers.get(address)
            if server is None:
                server = _new_server(url, *address)
                try:
                    await server.start()
                except OSError as error:
                    text = f"port {address[1]} could not be bound: {error.strerror or error}"
                    raise ServiceError(text) from error
                self._servers[address] = server
            return server

    async def registry(self, url: URL) -> Registry:
        """The registry at a URL, connected once for all services."""
        key = f"{url.address},{url.get('backup')},{url.get('group')}"
        async with self._connecting:
            registry = self._registries.get(key)
            if registry is None:
                registry = Registry(url)
                await registry.start()
                self._registries[key] = registry
            return registry

    def surroundings(self, registries: list[URL]) -> Surroundings:
        return Surroundings(
            self._clock.now_ms(),
            os.getpid(),
            os.environ,
            local_host(registries),
            lambda: str(uuid4()),
            free_port,
        )


class Export:
    """One exported object: its URLs, its registrations, and how to unexport it."""

    def __init__(
        self, services: Services, target: object, settings: Settings, interface: Interface
    ) -> None:
        self._services = services
        self._settings = settings
        self.target = target
        self.interface = interface
        self.urls: list[URL] = []
        self._served: list[tuple[ServiceServer, Invoker]] = []
        self._local_keys: list[str] = []
        self._registrations: list[Registration] = []
        self._delayed: asyncio.Task[None] | None = None
        self._is_exported = False
        self._over = asyncio.Event()

    @property
    def registered_urls(self) -> list[URL]:
        """The URLs that registries currently show."""
        return [item.url for item in self._registrations if item.url is not None]

    async def start(self) -> None:
        """Exports unless `export` is false.

        Repeated calls do nothing; after the end it is an error.
        """
        if self._over.is_set():
            raise ServiceError(f"{self.interface.name} was unexported and cannot be exported again")
        if self._is_exported:
            return
        if text_of(self._settings.inherited("export")) == "false":
            return
        self._is_exported = True
        delay_ms = number_of("delay", self._settings.inherited("delay"))
        if delay_ms > 0:
            self._delayed = asyncio.create_task(self._export_later(delay_ms))
        else:
            await self._export()

    async def exported(self) -> None:
        """Waits until a delayed export has happened."""
        if self._delayed is not None:
            await asyncio.shield(self._delayed)

    async def _export_later(self, delay_ms: int) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), delay_ms / 1000)
            return
        try:
            await self._export()
        except ServiceError as error:
            # Nobody may be waiting for it any more.
            logger.error("%s could not be exported: %s", self.interface.name, error)
            raise

    async def _export(self) -> None:
        registries = registry_urls(self._settings, for_provider=True)
        around = self._services.surroundings(registries)
        for protocol in self._settings.protocols or ({},):
            await self._export_protocol(protocol, registries, around)

    async def _export_protocol(
        self, protocol: Values, registries: list[URL], around: Surroundings
    ) -> None:
        url = provider_url(self._settings, self.interface, protocol, around)
        scope = url.get("scope").lower()
        if scope != "none":
            invoker = Invoker(self.target, self.interface, url)
            if scope != "remote":
                self._export_locally(url, invoker)
            if scope != "local" and url.protocol != "injvm":
                await self._export_remotely(url, invoker, registries, around)
        self.urls.append(url)

    def _export_locally(self, url: URL, invoker: Invoker) -> None:
        self._services.local[url.service_key] = invoker
        self._local_keys.append(url.service_key)

    async def _export_remotely(
        self, url: URL, invoker: Invoker, registries: list[URL], around: Surroundings
    ) -> None:
        """Serves first, then registers."""
        server = await self._services.server(url)
        server.add(invoker)
        self._served.append((server, invoker))
        for registry_url in registries:
            registry = await self._services.registry(registry_url)
            shown = with_registry(url, registry_url, self._settings, around)
            registration = Registration(registry, shown, invoker)
            self._registrations.append(registration)
            await registration.start()
        await self._publish_metadata(url)
        logger.info("%s is exported at %s", self.interface.name, url.address)

    async def _publish_metadata(self, url: URL) -> None:
        if self._settings.metadata_report:
            report = URL.parse(self._settings.metadata_report)
            registry = await self._services.registry(report)
            definition = definition_json(self.interface, dict(url.parameters))
            await registry.publish_metadata(url, definition)

    async def withdraw(self) -> None:
        """Leaves the registries for a while. Still serves remaining calls."""
        for registration in self._registrations:
            await registration.withdraw()

    async def put_back(self) -> None:
        for registration in self._registrations:
            await registration.put_back()

    async def unexport(self) -> None:
        """Leaves the registries and stops serving. The server stays until `Services.close`."""
        await self.leave()
        served, self._served = self._served, []
        await asyncio.gather(*(server.remove(invoker) for server, invoker in served))

    async def leave(self) -> None:
        """Leaves the registries permanently. Still serves remaining calls."""
        if self._over.is_set():
            return
        self._over.set()
        if self._delayed is not None:
            # An export that has begun is finished first, so that nothing of it stays.
            await asyncio.gather(self._delayed, return_exceptions=True)
        for registration in self._registrations:
            await registration.stop()
        for key in self._local_keys:
            self._services.local.pop(key, None)


def _new_server(url: URL, host: str, port: int) -> ServiceServer:
    threads = url.get_int("threads", DEFAULT_THREADS)
    beat = url.get_int("heartbeat", 0) / 1000 or HEARTBEAT_SECONDS
    if url.protocol == "dubbo":
        return DubboServer(host, port, threads=threads, heartbeat_seconds=beat)
    if url.protocol == "tri":
        # Imported late: most services do not need HTTP/2.
        from floodmark.service.triple.server import TripleServer

        return TripleServer(host, port, threads=threads, heartbeat_seconds=beat)
    raise ConfigError(f"protocol {url.protocol!r} is not supported: use dubbo or tri")


def _interface_name(target: object, settings: Settings) -> str:
    name = settings.service.get("interface") or getattr(target, "__dubbo_interface__", None)
    if not name:
        raise ConfigError(
            f"{type(target).__name__} has no Java interface: decorate it with "
            '@service("dev.shop.Orders")'
        )
    return str(name)


class Service:
    """One object to export: `async with Service(Orders(), registry="zookeeper://...").export():`."""

    def __init__(self, target: object, **options: Any) -> None:
        """Takes the options of `settings_of`."""
        from floodmark.service.api import settings_of

        self._target = target
        self._settings = settings_of(type(target), **options)

    def export(self) -> RunningService:
        return RunningService(self._target, self._settings)


class RunningService:
    """A service for the duration of an `async with` block.

    In a program without a loop, use `with`: a thread then serves it.
    """

    def __init__(self, target: object, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._services = Services()
        self._thread: LoopThread | None = None

    def __enter__(self) -> Export:
        self._thread = LoopThread()
        try:
            return self._thread.run(self.__aenter__())
        except BaseException:
            self._thread.stop()
            raise

    def __exit__(self, *exc_info: object) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self._services.close())
        finally:
            self._thread.stop()

    async def __aenter__(self) -> Export:
        try:
            return await self._services.export(self._target, self._settings)
        except BaseException:
            await self._services.close()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await self._services.close()
