"""The server of the triple protocol: one per address, for all services exported there."""

from __future__ import annotations

from floodmark.service.server import DEFAULT_THREADS, ServiceServer
from floodmark.service.triple.connection import TripleConnection


class TripleServer(ServiceServer):
    """Listens for HTTP/2."""

    def __init__(self, host: str, port: int, *, threads: int = DEFAULT_THREADS) -> None:
        super().__init__(host, port, threads)

    def new_connection(self) -> TripleConnection:
        return TripleConnection(self)
