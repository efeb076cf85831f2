"""A server over real sockets: whom it accepts, and that files and ends of streams get through."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from floodmark.network.acceptor import Listener
from floodmark.network.creation_rates import CreationRates
from floodmark.network.plain_port import PlainPort
from floodmark.network.server import NetworkServer, NetworkSettings
from floodmark.network.transfer import SMALL_BYTES
from floodmark.security.rates import Windows
from floodmark.storage.files import FileSlice, RealFiles
from floodmark.testing.virtual_clock import VirtualClock

Handler = Callable[[Any, memoryview], Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Ports:
    """Servers and connections of one test; all are closed at its end."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._servers: list[NetworkServer] = []
        self._writers: list[asyncio.StreamWriter] = []

    def serve(self, handler: Handler, host: str = "127.0.0.1", **settings: Any) -> NetworkServer:
        listener = Listener("PLAINTEXT", "PLAINTEXT", host, 0)
        server = NetworkServer([listener], handler, NetworkSettings(**settings), self.clock)
        server.start()
        self._servers.append(server)
        return server

    async def connect(self, server: NetworkServer) -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
        self._writers.append(streams[1])
        return streams

    async def close(self) -> None:
        for server in self._servers:
            await server.close()
        for writer in self._writers:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.fixture
async def ports() -> AsyncIterator[Ports]:
    ports = Ports()
    yield ports
    await ports.close()


def echo(_: Any, frame: memoryview) -> bytes:
    return bytes(frame)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(10):
            return await reader.read(1) == b""
    except ConnectionError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


@pytest.mark.parametrize("reads_at_once", [1 << 20, 10_000])
async def test_slices_of_files_arrive_whole_and_in_their_place(
    ports: Ports, tmp_path: Path, reads_at_once: int
) -> None:
    content = random.Random(7).randbytes(9 << 20)
    (tmp_path / "log").write_bytes(content)
    file = RealFiles().open(tmp_path / "log")
    stretches = [(0, 1 << 20), (5, 6 << 20), (1 << 20, 100), (3, SMALL_BYTES + 1), (0, 9 << 20)]
    answer: list[Any] = [b"head"]
    expected = b"head"
    for position, size_bytes in stretches:
        answer += [FileSlice(file, position, size_bytes), b"between"]
        expected += content[position : position + size_bytes] + b"between"
    reader, writer = await ports.connect(ports.serve(lambda _, frame: [bytes(frame), *answer]))
    writer.write(b"".join(framed(bytes([number])) for number in range(3)))
    for number in range(3):
        size_bytes = int.from_bytes(await reader.readexactly(4), "big")
        received = bytearray()
        while len(received) < size_bytes:
            received += await reader.read(min(reads_at_once, size_bytes - len(received)))
        assert received == bytes([number]) + expected
    file.close()


async def test_connections_beyond_the_limit_of_an_address_are_closed(ports: Ports) -> None:
    server = ports.serve(echo, max_connections_per_ip=2)
    kept = [await ports.connect(server) for _ in range(2)]
    await until(lambda: server.limits.total == 2)
    reader, _ = await ports.connect(server)
    assert await is_closed(reader)
    for reader, writer in kept:
        writer.write(framed(b"x"))
        assert await read_frame(reader) == b"x"


async def test_a_full_broker_takes_new_connections_when_old_ones_close(ports: Ports) -> None:
    server = ports.serve(echo, max_connections=1)
    _, first = await ports.connect(server)
    await until(lambda: server.limits.total == 1)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    assert server.limits.total == 1
    ports.clock.advance(100)
    assert server.acceptors[0].blocked_share() > 0
    first.transport.abort()
    assert await read_frame(reader) == b"x"


async def test_new_connections_go_round_robin_to_the_processors(ports: Ports) -> None:
    server = ports.serve(echo, network_threads=3)
    for _ in range(6):
        await ports.connect(server)
    await until(lambda: server.limits.total == 6)
    assert [len(p.connections) for p in server.processors] == [2, 2, 2]


async def test_requests_that_came_before_the_peer_left_are_done(ports: Ports) -> None:
    handled = 0

    def silent(_: Any, frame: memoryview) -> None:
        nonlocal handled
        handled += 1

    server = ports.serve(silent)
    _, writer = await ports.connect(server)
    await until(lambda: server.limits.total == 1)
    writer.write(framed(b"x") * 400 + framed(b"not whole")[:-1])
    writer.close()
    await until(lambda: server.limits.total == 0)
    assert handled == 400


async def test_a_connection_that_the_system_cannot_watch_is_closed(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    server = ports.serve(echo)
    with monkeypatch.context() as patched:
        patched.setattr(PlainPort, "watch_receiving", refuse)
        reader, _ = await ports.connect(server)
        assert await is_closed(reader)
    assert server.limits.total == 0
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    assert await read_frame(reader) == b"x"


async def test_a_listener_for_both_families_knows_ipv4_clients_by_their_own_address(
    ports: Ports,
) -> None:
    """Otherwise an ACL that denies them would not find them."""
    server = ports.serve(lambda connection, _: connection.peer.host.encode(), host="::")
    reader, writer = await ports.connect(server)
    writer.write(framed(b"who am I?"))
    assert await read_frame(reader) == b"127.0.0.1"


async def test_addresses_above_their_rate_cannot_take_all_file_descriptors(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floodmark.network.acceptor.MOST_DELAYED", 3)
    server = ports.serve(echo)
    rates = CreationRates(ports.clock, Windows())
    rates.limit_of_address = lambda _: 0.001
    server.limits.rates = rates
    await ports.connect(server)
    for _ in range(20):
        await ports.connect(server)
    await until(lambda: rates.throttled >= 20)
    (acceptor,) = server.acceptors
    assert len(acceptor._delayed) == 3
