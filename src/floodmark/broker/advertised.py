"""The host that clients are told where the bound one means "all addresses". For `broker.broker`."""

from __future__ import annotations

import socket

from floodmark.config.listeners import WILDCARD_HOSTS

FALLBACK = "localhost"


def reachable_host(host: str) -> str:
    """As Kafka does, the name of this machine; but only where that name means something here."""
    if host not in WILDCARD_HOSTS:
        return host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK
    return name
