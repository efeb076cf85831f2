"""The server of the Dubbo protocol: one per address, for all services exported there."""

from __future__ import annotations

import asyncio

from floodmark.service.dubbo.connection import Connection
from floodmark.service.server import DEFAULT_THREADS, STOP_SECONDS, ServiceServer

HEARTBEAT_SECONDS = 60.0
"""Dubbo's default: a connection that is silent for so long is asked whether it lives."""

MISSED_HEARTBEATS = 3

MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""Of all requests whose rest has not come yet. One may have 8 MB, and there are many consumers."""


class DubboServer(ServiceServer):
    """Listens, keeps connections alive, ends them in order."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        threads: int = DEFAULT_THREADS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        super().__init__(host, port, threads)
        self._heartbeat_seconds = heartbeat_seconds
        self.buffered_bytes = 0
        self._beat: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        await super().start()
        self._beat_later()

    def new_connection(self) -> Connection:
        return Connection(self)

    def is_overfull(self) -> bool:
        return self.buffered_bytes > MAX_BUFFERED_BYTES

    def _beat_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(self._heartbeat_seconds / 3, self._check_connections)

    def _check_connections(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            assert isinstance(connection, Connection)
            connection.keep_alive(now, self._heartbeat_seconds, MISSED_HEARTBEATS)
        self._beat_later()

    async def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        if self._beat is not None:
            self._beat.cancel()
        await super().stop(timeout_seconds)
