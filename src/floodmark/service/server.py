"""The common base of all protocol servers: the services at an address, and calls in progress."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from floodmark.occurrences import Occurrences
from floodmark.service.hessian import JavaClasses
from floodmark.service.invoker import Handle, Invoker
from floodmark.service.url import service_key

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 10_000
MAX_CALLS = 20_000
"""Maximum calls in progress. Further ones are refused, as Dubbo does without free threads."""

STOP_SECONDS = 10.0
LAST_WORDS_SECONDS = 2.0
"""How long a closing connection may take to accept its last responses."""

UNTIL_QUIET_SECONDS = 20.0
"""Consumers of Dubbo 3 take up to ten seconds to see that a provider has left the registry."""

HEARTBEAT_SECONDS = 60.0
"""Dubbo's default: a connection that is silent for so long is asked whether it lives."""

MISSED_HEARTBEATS = 3

MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""The limit for all incomplete requests together. Each may have 8 MB, and there are many
consumers."""

MAX_WARNING_LETTERS = 500
"""A warning may quote a name that a consumer has sent, which may be megabytes long."""

DEFAULT_THREADS = 200
"""Dubbo's default pool size. Threads start on demand."""


class ServedConnection(asyncio.Protocol):
    """A consumer, in any protocol."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self.remote_address = ""

    def _is_accepted(self, transport: asyncio.BaseTransport, server: ServiceServer) -> bool:
        """Called first in connection_made. Closes the connection if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.remote_address = f"{peer[0]}:{peer[1]}" if peer else ""
        if server.opened(self):
            return True
        server.warn("connections", f"refused {self.remote_address}: too many connections")
        self._transport.abort()
        return False

    def keep_alive(self, now: float, heartbeat_seconds: float, missed: int) -> None:
        """Sends a heartbeat to a silent consumer. Closes it after `missed` heartbeats without a
        response."""
        raise NotImplementedError

    def say_goodbye(self) -> None:
        """Tells the consumer to send no more calls."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes after everything already written is sent."""
        raise NotImplementedError

    def abort(self) -> None:
        """Closes at once: the consumer may never read what is written."""
        if self._transport is not None:
            self._transport.abort()


class ServiceServer:
    """Finds the service for a request, and counts calls."""

    tells_first = True
    """Whether consumers handle a goodbye during their calls. If not, it is sent once they have
    left by themselves."""

    quiet_seconds = 0.5
    """After leaving the registry, a service without calls for this long counts as unused."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        threads: int = DEFAULT_THREADS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.host = host
        self.port = port
        self._heartbeat_seconds = heartbeat_seconds
        self._beat: asyncio.TimerHandle | None = None
        self.buffered_bytes = 0
        self.occurrences = Occurrences()
        self.max_threads = threads
        self.calls_in_threads = 0
        self.calls = 0
        self._connections: set[ServedConnection] = set()
        self._invokers: dict[str, Invoker] = {}
        self._classes: dict[str, JavaClasses] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self) -> None:
        """Starts listening. Port 0 picks a free port, which `port` then returns."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.new_connection, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._beat_later()

    def _beat_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(self._heartbeat_seconds / 3, self._check_connections)

    def _check_connections(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            connection.keep_alive(now, self._heartbeat_seconds, MISSED_HEARTBEATS)
        self._beat_later()

    def new_connection(self) -> ServedConnection:
        raise NotImplementedError

    @property
    def connections(self) -> frozenset[ServedConnection]:
        return frozenset(self._connections)

    def is_overfull(self) -> bool:
        return self.buffered_bytes > MAX_BUFFERED_BYTES

    def opened(self, connection: ServedConnection) -> bool:
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        self._connections.add(connection)
        self._is_empty.clear()
        return True

    def closed(self, connection: ServedConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()

    def add(self, invoker: Invoker) -> None:
        """Serves it from now on. Replaces another one with the same key."""
        self._invokers[invoker.url.service_key] = invoker
        self._classes.clear()

    async def remove(self, invoker: Invoker) -> None:
        """Stops serving it, once consumers have seen that it left the registry."""
        await self._until_quiet([invoker])
        key = invoker.url.service_key
        if self._invokers.get(key) is invoker:
            del self._invokers[key]
        self._classes.clear()

    def find(self, path: str, group: str, version: str) -> Invoker | None:
        return self._invokers.get(service_key(path, group, version))

    def classes_of(self, path: str) -> JavaClasses | None:
        """The classes for arguments. Needed before the group is known, which follows them.

        Services with the same path share their interface, and thus the class names.
        """
        known = self._classes.get(path)
        if known is None:
            found = (i.classes for i in self._invokers.values() if i.url.path == path)
            known = next(found, None)
            if known is not None:  # consumers invent paths, which are not cached
                self._classes[path] = known
        return known

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

    def note_duration(self, handle: Handle, seconds: float) -> None:
        """Logs a call that took longer than its `timeout`, as Dubbo's TimeoutFilter does. Its
        response is still sent: the consumer decides how long it waits."""
        if handle.timeout_seconds and seconds > handle.timeout_seconds:
            method = f"{handle.service}.{handle.name}"
            text = f"{seconds * 1000:.0f} ms, its timeout is {handle.timeout_seconds * 1000:.0f} ms"
            self.warn(f"timeout {method}", f"{method} took {text}")

    def warn(self, kind: str, text: str) -> None:
        times = self.occurrences.worth_telling(kind)
        if times:
            # Consumers choose names, also with line ends: nobody may forge a line of the log.
            line = text[:MAX_WARNING_LETTERS].replace("\r", "\\r").replace("\n", "\\n")
            logger.warning("%s (%d times)", line, times)

    def _say_goodbye(self) -> None:
        for connection in self.connections:
            connection.say_goodbye()

    async def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        """Notifies consumers, serves those not yet aware, finishes calls, and closes."""
        if self._server is None:
            return
        if self._beat is not None:
            self._beat.cancel()
        self._server.close()
        if self.tells_first:
            self._say_goodbye()
        await self._until_quiet(list(self._invokers.values()))
        if not self.tells_first:
            self._say_goodbye()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        except TimeoutError:
            logger.warning("%d calls did not finish within %s s", self.calls, timeout_seconds)
        for connection in self.connections:
            connection.close()
        await self._until_closed()
        self._server = None
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _until_quiet(self, invokers: list[Invoker]) -> None:
        """Waits until nobody has called for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + UNTIL_QUIET_SECONDS
        while True:
            last_call = max((invoker.last_call for invoker in invokers), default=0.0)
            quiet_at = last_call + self.quiet_seconds if last_call else 0.0
            left = min(quiet_at, deadline) - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)

    async def _until_closed(self) -> None:
        """Waits for the last responses; not for consumers that do not read them."""
        assert self._server is not None
        try:
            await asyncio.wait_for(self._is_empty.wait(), LAST_WORDS_SECONDS)
        except TimeoutError:
            for connection in self.connections:
                connection.abort()
        await self._server.wait_closed()
