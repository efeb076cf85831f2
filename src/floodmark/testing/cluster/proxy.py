"""A TCP proxy in front of a broker's listener that can cut the network like a pulled cable.

`network.py` creates one per listener, and one between each broker and ZooKeeper. While a peer is
cut off, bytes wait in the sockets, and new connections are accepted but get no response. `heal`
delivers the waiting bytes, as TCP does after a short outage. While the broker is down, its port
refuses connections.

The client id in the first request identifies the peer: brokers call themselves `broker-N`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakSet

EVERYBODY = "everybody"
"""Cutting this off stops all connections, regardless of their client id."""

_CHUNK_BYTES = 256 * 1024
_BACKLOG = 100
# size, api key, api version, correlation id, length of the client id
_HEADER = struct.Struct(">ihhih")
_BROKER = re.compile(rb"broker-(\d+)")

Peer = int | str


class Proxy:
    """All methods but `__init__` run on the loop of the cluster's thread."""

    def __init__(self) -> None:
        # Bound but never listening: reserves the port while the broker is down.
        self._reserved = _bound_socket(0)
        self.port: int = self._reserved.getsockname()[1]
        self._target = ("127.0.0.1", 0)
        self._listening: socket.socket | None = None
        self._gates: dict[Peer, asyncio.Event] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()

    async def open(self, port: int, host: str = "127.0.0.1") -> None:
        """Forwards connections to the broker, which listens on this port."""
        self._target = (host, port)
        self._listening = listening = _bound_socket(self.port)
        listening.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def refuse(self) -> None:
        """Refuses new connections, because the broker is stopping."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    async def shut(self) -> None:
        """Closes all connections and refuses new ones, because the broker is gone."""
        self.refuse()
        # Let every connection start before it is cancelled, or it would not close its socket.
        await asyncio.sleep(0)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for writer in list(self._writers):
            writer.transport.abort()
        # The loop closes aborted transports in its next iteration, which may be its last.
        await asyncio.sleep(0)

    async def close(self) -> None:
        await self.shut()
        self._reserved.close()

    def cut(self, peer: Peer) -> None:
        self._gate(peer).clear()

    def heal(self) -> None:
        for gate in self._gates.values():
            gate.set()

    def _gate(self, peer: Peer) -> asyncio.Event:
        gate = self._gates.get(peer)
        if gate is None:
            gate = self._gates[peer] = asyncio.Event()
            gate.set()
        return gate

    def _accept(self, listening: socket.socket) -> None:
        """Avoids `asyncio.Server`, which leaks a connection accepted while it closes."""
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._relay(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _relay(self, connection: socket.socket) -> None:
        with suppress(OSError):
            client = _End(*await asyncio.open_connection(sock=connection))
            self._writers.add(client.writer)
            try:
                await self._serve(client)
            except OSError:
                client.writer.transport.abort()

    async def _serve(self, client: _End) -> None:
        await self._gate(EVERYBODY).wait()
        first = await client.reader.read(_CHUNK_BYTES)
        gates = [self._gate(EVERYBODY), self._gate(_peer_of(first))]
        for gate in gates:
            await gate.wait()
        broker = _End(*await asyncio.open_connection(*self._target))
        self._writers.add(broker.writer)
        try:
            broker.writer.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(client, broker, gates))
                both.create_task(_pump(broker, client, gates))
        except* OSError:
            # Pass a reset on to the other side.
            client.writer.transport.abort()
        finally:
            broker.writer.transport.abort()
            with suppress(OSError):
                client.writer.close()


@dataclass(slots=True)
class _End:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _pump(source: _End, sink: _End, gates: list[asyncio.Event]) -> None:
    while data := await source.reader.read(_CHUNK_BYTES):
        for gate in gates:
            await gate.wait()
        sink.writer.write(data)
        await sink.writer.drain()
    for gate in gates:
        await gate.wait()
    # Kafka's clients and brokers never half-close a connection.
    sink.writer.close()


def _peer_of(first: bytes) -> Peer:
    if len(first) < _HEADER.size:
        return EVERYBODY
    length = _HEADER.unpack_from(first)[-1]
    found = _BROKER.fullmatch(first[_HEADER.size : _HEADER.size + max(length, 0)])
    return int(found[1]) if found else EVERYBODY


def _bound_socket(port: int) -> socket.socket:
    """Two sockets may share the port: connections go to the one that listens."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    bound.setblocking(False)
    return bound
