"""Broker connections by node id, opened on first use, one attempt at a time.

Belongs to `cluster.py`. A broker may have several connections, one per purpose: a long-polling
fetch must not delay a commit.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection

from floodmark.client.cluster.connection import Address, Connection, ConnectionOptions
from floodmark.client.errors import ClientClosed, RequestTimedOut

SILENT_S = 60.0
"""How long a broker that did not respond in time is asked last. It may stand still, with a port
that accepts connections."""


class ConnectionPool:
    def __init__(self, options: ConnectionOptions, *, max_idle_ms: float) -> None:
        self._options = options
        self._max_idle_ms = max_idle_ms
        self._open: dict[tuple[Address, str], Connection] = {}
        self._locks: dict[tuple[Address, str], asyncio.Lock] = {}
        self._closed = False
        self._timed_out_at: dict[Address, float] = {}

    async def get(self, address: Address, purpose: str = "") -> Connection:
        """The open connection to this address, or a new one.

        Callers that wait for the same new connection get it in no particular order.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        connection = self.find(address, purpose)
        if connection is not None:
            return connection
        key = (address, purpose)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            connection = self.find(address, purpose)
            if connection is None:
                connection = await self._opened(address)
                await self._keep(key, connection)
            return connection

    async def _opened(self, address: Address) -> Connection:
        try:
            return await Connection.open(address.host, address.port, self._options)
        except RequestTimedOut:
            self.note_silent(address)
            raise

    def find(self, address: Address, purpose: str = "") -> Connection | None:
        """The open connection to this address, if any."""
        connection = self._open.get((address, purpose))
        return connection if connection is not None and connection.is_open else None

    def idle(self, address: Address) -> Connection | None:
        """An open connection to this address on which nothing would be waited for, if any."""
        for (at, _), connection in self._open.items():
            if at == address and connection.is_open and connection.in_flight == 0:
                return connection
        return None

    def note_silent(self, address: Address) -> None:
        """Remembers that this broker did not respond in time."""
        self._timed_out_at[address] = asyncio.get_running_loop().time()

    def is_silent(self, address: Address) -> bool:
        """Whether this broker did not respond in time, not long ago."""
        self._note_silent()
        recent = asyncio.get_running_loop().time() - SILENT_S
        return self._timed_out_at.get(address, recent) > recent

    def _note_silent(self) -> None:
        for (address, _), connection in self._open.items():
            if connection.timed_out_at is not None:
                noted = self._timed_out_at.get(address, connection.timed_out_at)
                self._timed_out_at[address] = max(noted, connection.timed_out_at)

    async def close(self) -> None:
        self._closed = True
        for connection in list(self._open.values()):
            await connection.close()
        self._open.clear()

    async def close_for(self, purposes: Collection[str]) -> None:
        """Closes connections that nobody needs any more."""
        for key in [key for key in self._locks if key[1] in purposes]:
            del self._locks[key]
            connection = self._open.pop(key, None)
            if connection is not None:
                await connection.close()

    async def _keep(self, key: tuple[Address, str], connection: Connection) -> None:
        if self._closed:
            await connection.close()
            raise ClientClosed("the client was closed while it connected")
        await self._drop_idle()
        self._open[key] = connection

    async def _drop_idle(self) -> None:
        """Closes idle connections before the broker does.

        Runs whenever a connection is added, which bounds their number.
        """
        self._note_silent()
        # A negative limit means never, as in Kafka.
        max_idle_ms = self._max_idle_ms if self._max_idle_ms >= 0 else math.inf
        oldest = asyncio.get_running_loop().time() - max_idle_ms / 1000
        for key, connection in list(self._open.items()):
            idle = connection.in_flight == 0 and connection.last_used < oldest
            if (idle or not connection.is_open) and self._open.get(key) is connection:
                # Remove it before waiting: another task may open a new one meanwhile.
                del self._open[key]
                await connection.close()
