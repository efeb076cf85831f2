"""The address by which others reach this machine, and free ports."""

from __future__ import annotations

import contextlib
import socket

from floodmark.service.config import is_local
from floodmark.service.url import URL

LOOPBACK = "127.0.0.1"
# Sends no packet: connecting a datagram socket only consults the routing table.
_ANYWHERE = ("192.0.2.1", 9)


def local_host(registries: list[URL]) -> str:
    """Our address towards a registry or the rest of the world, or loopback if there is none."""
    candidates = [_by_name(), *(_towards(url.host, url.port or 2181) for url in registries)]
    candidates.append(_towards(*_ANYWHERE))
    return next((found for found in candidates if not is_local(found)), LOOPBACK)


def _by_name() -> str:
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return ""


def _towards(host: str, port: int) -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((host, port))
        found: str = asked.getsockname()[0]
        return found
    return ""


def free_port(first: int) -> int:
    """The first port from `first` on that can be bound."""
    for port in range(max(first, 1024), 65536):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("", port))
            return port
    raise OSError("no port is free")
