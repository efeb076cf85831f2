"""A TCP proxy in front of one listener of a broker, to cut the network like a pulled cable.

Used by `network.py`, one for each listener, and one between each broker and a ZooKeeper. While a
peer is cut off, bytes wait in the sockets and new connections are accepted but get no answer;
`heal` delivers what has waited, as TCP does after a short outage. While the broker is down, its
port refuses connections.

Peers are told apart by the client id in their first request: brokers call themselves `broker-N`.
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
"""Cutting this off stops all connections, whatever their client id is."""

_CHUNK_BYTES = 256 * 1024
_BACKLOG = 100
# size, api key, api version, correlation id, length of the client id
_HEADER = struct.Struct(">ihhih")
_BROKER = re.compile(rb"broker-(\d+)")

Peer = int | str


class Proxy:
    """All methods but `__init__` run on the loop of the cluster's thread."""

    def __init__(self) -> None:
        # Bound but never listening: it keeps the port ours while the broker is down.
        self._reserved = _bound_socket(0)
        self.port: int = self._reserved.getsockname()[1]
        self._target = ("127.0.0.1", 0)
        self._listening: socket.socket | None = None
        self._gates: dict[Peer, asyncio.Event] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()

    async def open(self, port: int, host: str = "127.0.0.1") -> None:
        """Pass connections on to the broker, which listens there now."""
        self._target = (host, port)
        self._listening = listening = _bound_socket(self.port)
        listening.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def refuse(self) -> None:
        """The broker is going: refuse new connections."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    async def shut(self) -> None:
        """The broker is gone: end its connections, refuse new ones."""
        self.refuse()
        # Every connection begins to be served before it is cancelled, and so closes its socket.
        await asyncio.sleep(0)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for writer in list(self._writers):
            writer.transport.abort()
        # The loop closes what was aborted in its next turn, and may have no other.
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
        """Not by `asyncio.Server`, which leaks a connection that it accepts while it closes."""
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
            # A reset on one side is a reset on the other.
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
    # Kafka's clients and brokers never close one direction only.
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
