"""The addresses that clients and other brokers are told. For broker.py."""

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
    """By the listener's name; with the port that was bound for a 0."""
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
    """Where the bound host means "all addresses", as Kafka does, the name of this machine; but only
    where that name means something here."""
    if host not in WILDCARD_HOSTS:
        return host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK
    return name
