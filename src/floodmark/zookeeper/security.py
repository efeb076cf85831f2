"""TLS, credentials and access lists of a ZooKeeper session.

Passed to `client.LoopClient`. kazoo's own TLS would also trust the system's CAs, and supports
neither PKCS12 nor a choice of TLS versions, so it gets sockets that are already encrypted.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

OWN_NODES = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
"""Everybody may read; only sessions with our credentials may write."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    tls: ssl.SSLContext | None = None
    digest: str | None = field(default=None, repr=False)
    """`name:password`, sent to ZooKeeper in the clear if there is no TLS."""
    protects_nodes: bool = False
    """Whether the nodes that we create get access lists."""

    def options(self) -> dict[str, Any]:
        """For a KazooClient."""
        options: dict[str, Any] = {}
        if self.tls is not None:
            options["handler"] = _TlsHandler(self.tls)
        if self.digest is not None:
            options["auth_data"] = [("digest", self.digest)]
        if self.protects_nodes:
            options["default_acl"] = OWN_NODES
        return options


NO_SECURITY = ZooKeeperSecurity()


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_others: Any
    ) -> ssl.SSLSocket:
        """Called by kazoo, also when it connects again. `address` is numeric."""
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise
