"""Detects that a broker's process is gone: its connection closed and its port refuses a new one.

Used by the controller for the other brokers, and by them for the controller. A paused process keeps
its port and a network partition causes timeouts. Neither is proof, so there the session with the
metadata store decides.
"""

from __future__ import annotations

import asyncio
import socket

RETRY_S = 0.1
"""The pause between attempts, so that a peer that hangs up immediately costs little."""

CONNECT_TIMEOUT_S = 5.0

# A rebooted host answers a probe with a reset. Without probes, we would never notice.
_KEEPALIVE_S = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}

Address = tuple[str, int]


async def until_gone(host: str, port: int) -> None:
    """Returns once the process listening at this address is known to be gone.

    A refusal counts only after a successful connection, because a broker may register before it
    listens. Later attempts use the same resolved address.
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
            # Unreachable, timed out or out of descriptors: proves nothing.
            await asyncio.sleep(RETRY_S)
        else:
            was_connected = True
            peer = writer.get_extra_info("peername")
            # None if the peer has already reset the connection.
            address = address if peer is None else peer[:2]
            await _until_closed(reader, writer)


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Waits for the connection to close. Pauses if it closes immediately."""
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
