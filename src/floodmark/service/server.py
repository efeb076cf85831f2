"""What the servers of all protocols share: the services at an address, and the calls under way."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from floodmark.occurrences import Occurrences
from floodmark.service.hessian import JavaClasses
from floodmark.service.invoker import Invoker
from floodmark.service.url import service_key

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 10_000
MAX_CALLS = 20_000
"""Calls under way; a further one is refused, as Dubbo does when its threads are exhausted."""

STOP_SECONDS = 10.0
QUIET_SECONDS = 0.5
"""A service that nobody has called for so long after it left the registry is called no more."""

DEFAULT_THREADS = 200
"""Dubbo's default size of the pool; threads are started when they are needed."""


class ServedConnection(asyncio.Protocol):
    """A consumer, in whatever protocol."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self.remote_address = ""

    def _is_accepted(self, transport: asyncio.BaseTransport, server: ServiceServer) -> bool:
        """Called first in connection_made; with too many connections it is closed at once."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.remote_address = f"{peer[0]}:{peer[1]}" if peer else ""
        if server.opened(self):
            return True
        server.warn("connections", f"refused {self.remote_address}: too many connections")
        self._transport.abort()
        return False

    def say_goodbye(self) -> None:
        """Tell the consumer to send no more calls."""
        raise NotImplementedError

    def close(self) -> None:
        """After what is written already."""
        raise NotImplementedError


class ServiceServer:
    """Finds the service that a request is for, and counts calls."""

    def __init__(self, host: str, port: int, threads: int) -> None:
        self.host = host
        self.port = port
        self.occurrences = Occurrences()
        self.max_threads = threads
        self.calls_in_threads = 0
        self.calls = 0
        self._connections: set[ServedConnection] = set()
        self._invokers: dict[str, Invoker] = {}
        self._classes: dict[str, JavaClasses | None] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Listen; port 0 takes a free one, which `port` then says."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.new_connection, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def new_connection(self) -> ServedConnection:
        raise NotImplementedError

    @property
    def connections(self) -> frozenset[ServedConnection]:
        return frozenset(self._connections)

    def opened(self, connection: ServedConnection) -> bool:
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: ServedConnection) -> None:
        self._connections.discard(connection)

    def add(self, invoker: Invoker) -> None:
        """Serve it from now on; another one with the same key is replaced."""
        self._invokers[invoker.url.service_key] = invoker
        self._classes.clear()

    async def remove(self, invoker: Invoker, timeout_seconds: float = STOP_SECONDS) -> None:
        """Serve it no longer, once consumers have seen that it left the registry."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        quiet_at = invoker.last_call + QUIET_SECONDS if invoker.last_call else 0.0
        while (now := loop.time()) < min(quiet_at, deadline):
            await asyncio.sleep(min(quiet_at, deadline) - now)
            quiet_at = invoker.last_call + QUIET_SECONDS
        key = invoker.url.service_key
        if self._invokers.get(key) is invoker:
            del self._invokers[key]
        self._classes.clear()

    def find(self, path: str, group: str, version: str) -> Invoker | None:
        return self._invokers.get(service_key(path, group, version))

    def classes_of(self, path: str) -> JavaClasses | None:
        """The classes for arguments, known before the group is: that stands behind them.

        Services of one path share their interface, and with it the names of classes.
        """
        if path not in self._classes:
            found = (i.classes for i in self._invokers.values() if i.url.path == path)
            if len(self._classes) > len(self._invokers):
                return None  # an unknown path: remember no more of those
            self._classes[path] = next(found, None)
        return self._classes[path]

    @property
    def threads(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.max_threads, "floodmark-service")
        return self._threads

    def may_begin(self) -> bool:
        return self.calls < MAX_CALLS

    def begun(self) -> None:
        self.calls += 1
        self._idle.clear()

    def ended(self) -> None:
        self.calls -= 1
        if not self.calls:
            self._idle.set()

    def warn(self, kind: str, text: str) -> None:
        times = self.occurrences.worth_telling(kind)
        if times:
            logger.warning("%s (%d times)", text, times)

    async def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        """Tell consumers, finish what is under way, close."""
        if self._server is None:
            return
        self._server.close()
        for connection in self.connections:
            connection.say_goodbye()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        except TimeoutError:
            logger.warning("%d calls did not end within %s s", self.calls, timeout_seconds)
        for connection in self.connections:
            connection.close()
        await self._server.wait_closed()
        self._server = None
        if self._threads is not None:
            self._threads.shutdown(wait=False)
