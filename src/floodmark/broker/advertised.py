"""The addresses that clients and other brokers connect to. Called by broker.py."""

from __future__ import annotations

import socket
from collections.abc import Callable

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.listeners import WILDCARD_HOSTS
from floodmark.metadata.image import Endpoint

FALLBACK = "localhost"


def advertised_endpoints(
    config: BrokerConfig, bound_port: Callable[[str], int]
) -> dict[str, Endpoint]:
    """The endpoints by listener name. Port 0 becomes the port that was bound."""
    return {
        told.name: Endpoint(
            told.name,
            reachable_host(told.host),
            told.port or bound_port(told.name),
            told.security_protocol,
        )
        for told in config.advertised_listeners
    }


def reachable_host(host: str) -> str:
    """Replaces a host that means "all addresses" by the name of this machine, as Kafka does, or by
    localhost if that name does not resolve."""
    if host not in WILDCARD_HOSTS:
        return host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK
    return name
