"""Proof that a broker's process is gone: its connection ended, and its port refuses a new one.

Used by the controller for the brokers it knows, and by the other brokers for the controller. A
paused process keeps its port, and a partition brings timeouts: neither is proof, so there the
session with the metadata store decides.
"""

from __future__ import annotations

import asyncio
import socket

RETRY_S = 0.1
"""Between two attempts to connect, so that a peer that hangs up at once costs little."""

CONNECT_TIMEOUT_S = 5.0

# A host that was rebooted answers a probe with a reset; without probes nobody would ask it.
_KEEPALIVE_S = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}

Address = tuple[str, int]


async def until_gone(host: str, port: int) -> None:
    """Returns once the process that listens at this address is known to be gone.

    A refusal counts only after a connection: a broker may register before it listens. Later
    attempts go to the very address that was connected, not to whatever the name resolves to then.
    """
    address: Address = (host, port)
    was_connected = False
    while True:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(*address)
        except ConnectionRefusedError:
            if was_connected:
                return
            await asyncio.sleep(RETRY_S)
        except OSError:
            # Unreachable, out of time or out of descriptors: nothing is proven.
            await asyncio.sleep(RETRY_S)
        else:
            was_connected = True
            address = writer.get_extra_info("peername")[:2]
            await _until_closed(reader, writer)


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Waits for the end of the connection; one that ends at once is followed by a pause."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        _keep_alive(writer.get_extra_info("socket"))
        while await reader.read(1024):
            pass
    except OSError:
        pass
    finally:
        writer.transport.abort()
    if loop.time() - began < RETRY_S:
        await asyncio.sleep(RETRY_S)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_S.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
