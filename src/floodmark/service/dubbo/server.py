"""The Dubbo protocol server: one per address, for all services exported there."""

from __future__ import annotations

from floodmark.service.dubbo.connection import Connection
from floodmark.service.server import ServiceServer


class DubboServer(ServiceServer):
    """Listens for Dubbo's own protocol."""

    def new_connection(self) -> Connection:
        return Connection(self)
