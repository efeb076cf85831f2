"""The triple protocol server: one per address, for all services exported there."""

from __future__ import annotations

from floodmark.service.server import ServiceServer
from floodmark.service.triple.connection import TripleConnection


class TripleServer(ServiceServer):
    """Listens for HTTP/2."""

    # Java's consumers close their connection when they hear it, with calls under way.
    tells_first = False

    # So a goodbye that comes too early costs calls, and a busy consumer may pause for a while.
    quiet_seconds = 2.0

    def new_connection(self) -> TripleConnection:
        return TripleConnection(self)
