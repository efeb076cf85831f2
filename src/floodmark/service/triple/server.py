"""The server of the triple protocol: one per address, for all services exported there."""

from __future__ import annotations

from floodmark.service.server import DEFAULT_THREADS, MAX_CONNECTIONS, ServiceServer
from floodmark.service.triple.connection import TripleConnection


class TripleServer(ServiceServer):
    """Listens for HTTP/2."""

    def __init__(self, host: str, port: int, *, threads: int = DEFAULT_THREADS) -> None:
        super().__init__(host, port, threads)
        self._connections: set[TripleConnection] = set()

    def new_connection(self) -> TripleConnection:
        return TripleConnection(self)

    def opened(self, connection: TripleConnection) -> bool:
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: TripleConnection) -> None:
        self._connections.discard(connection)

    def say_goodbye(self) -> None:
        for connection in list(self._connections):
            connection.say_goodbye()

    def close_connections(self) -> None:
        for connection in list(self._connections):
            connection.close()
