"""A connection works over a port in which encryption reads and writes for itself."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from floodmark.network.connection import Connection
from floodmark.network.framing import INITIAL_BYTES
from floodmark.network.states import CLOSED_STATE, Receiving, Request, Sending
from floodmark.promise import Promise
from floodmark.testing.memory_port import WINDOW_BYTES, MemoryPort
from kit.bio_port import HELLO, HOLD, RELEASE, WELCOME, BioPort, FakeEngine, opened, sealed
from kit.connections import MemoryServer, settled

Serve = Callable[..., MemoryServer]
LARGE_BYTES = 300_000


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


class Requests:
    """A handler whose requests say in which state they put their connection."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.promise: Promise[bytes] = Promise()

    def __call__(self, _: Any, frame: memoryview) -> Any:
        if frame == b"park":
            return self.promise.map(lambda body: body)
        if frame == b"large":
            return bytes(LARGE_BYTES)
        return self._work(bytes(frame)) if frame == b"work" else bytes(frame)

    async def _work(self, body: bytes) -> bytes:
        await self.gate.wait()
        return body


class Client:
    """Speaks the fake engine's records."""

    def __init__(self, server: MemoryServer, window_bytes: int = WINDOW_BYTES) -> None:
        self.raw = MemoryPort(window_bytes)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = FakeEngine(incoming, outgoing)
        self.connection = server.serve(BioPort(self.raw, engine, incoming, outgoing))
        self._unopened = b""

    async def write(self, data: bytes) -> Connection:
        self.raw.client.write(data)
        await settled()
        return self.connection

    async def request(self, *bodies: bytes) -> Connection:
        return await self.write(sealed(framed(*bodies)))

    async def shake_hands(self) -> None:
        await self.write(HELLO)
        assert await self.raw.client.read(1) == WELCOME

    async def take_all(self) -> bytes:
        """Everything that comes, whatever the window is."""
        taken = b""
        while part := self.raw.client.take():
            taken += part
            await settled()
        return opened(taken)


async def test_a_handshake_whose_answer_is_not_taken_goes_on_when_it_is(serve: Serve) -> None:
    """Receiving wants to write, though the connection has nothing to send."""
    client = Client(serve(Requests()), window_bytes=0)
    connection = await client.write(HELLO)
    assert connection.state.takes_requests
    assert client.raw.sending.is_on, "the port watches for itself"
    client.raw.window_bytes = WINDOW_BYTES
    client.raw.sending.look()
    await settled()
    assert client.raw.client.take() == WELCOME
    assert not client.raw.sending.is_on
    await client.request(b"x")
    assert await client.take_all() == framed(b"x")


async def test_bytes_that_wait_inside_the_port_are_received_without_the_socket(
    serve: Serve,
) -> None:
    client = Client(serve(Requests()))
    await client.shake_hands()
    bodies = [bytes([number]) * 1000 for number in range(1, 16)]
    assert sum(map(len, bodies)) > 3 * INITIAL_BYTES
    await client.request(*bodies)
    assert client.raw.incoming == b""
    assert await client.take_all() == framed(*bodies)


async def test_bytes_inside_the_port_wait_while_the_connection_is_paused(serve: Serve) -> None:
    requests = Requests()
    client = Client(serve(requests))
    await client.shake_hands()
    bodies = [b"work", *[b"x" * 1000] * 15]
    connection = await client.request(*bodies)
    assert connection.state.sides == (Request.WORKING, Receiving.PAUSED, Sending.CLEAR)
    assert not client.raw.receiving.is_on
    requests.gate.set()
    await settled()
    assert await client.take_all() == framed(*bodies)


async def test_a_half_record_waits_for_the_socket(serve: Serve) -> None:
    client = Client(serve(Requests()))
    await client.shake_hands()
    record = sealed(framed(b"x"))
    await client.write(record[:-1])
    assert client.raw.receiving.is_on
    await client.write(record[-1:])
    assert await client.take_all() == framed(b"x")


async def test_a_write_that_wants_to_read_goes_on_when_something_is_read(serve: Serve) -> None:
    client = Client(serve(Requests()))
    await client.shake_hands()
    connection = await client.write(HOLD + sealed(framed(b"x")))
    assert connection.state.sides == (Request.READY, Receiving.OPEN, Sending.BLOCKED)
    assert not client.raw.sending.is_on, "the socket would take something all the time"
    await client.write(RELEASE)
    assert connection.state.takes_requests
    assert await client.take_all() == framed(b"x")


async def test_a_write_that_wants_to_read_reads_on_while_the_connection_is_paused(
    serve: Serve,
) -> None:
    client = Client(serve(Requests()))
    await client.shake_hands()
    bodies = [b"x" * 1000] * 12
    await client.write(HOLD + sealed(framed(b"first")))
    connection = await client.request(*bodies)
    assert connection.state.sides == (Request.READY, Receiving.PAUSED, Sending.BLOCKED)
    await client.write(RELEASE)
    assert await client.take_all() == framed(b"first", *bodies)
    assert connection.state.sides == (Request.READY, Receiving.OPEN, Sending.CLEAR)


async def test_a_connection_passes_through_all_its_states(serve: Serve) -> None:
    requests = Requests()
    server = serve(requests, slots=1, capacity=1)
    busy, queued, client = Client(server), Client(server), Client(server)
    for one in (busy, queued, client):
        await one.shake_hands()
    visited = []

    def arrives_in(*sides: Request | Receiving | Sending) -> None:
        assert client.connection.state.sides == sides
        visited.append(sides)

    arrives_in(Request.READY, Receiving.OPEN, Sending.CLEAR)
    await client.request(b"park")
    arrives_in(Request.PARKED, Receiving.OPEN, Sending.CLEAR)
    requests.promise.set(b"parked")
    assert await client.take_all() == framed(b"parked")

    await client.request(b"large")
    arrives_in(Request.READY, Receiving.OPEN, Sending.BLOCKED)
    assert await client.take_all() == framed(bytes(LARGE_BYTES))

    await busy.request(b"work")
    await queued.request(b"work")
    bodies = [b"work", *[b"x" * 1000] * 10]
    await client.request(*bodies)
    arrives_in(Request.REFUSED, Receiving.PAUSED, Sending.CLEAR)
    requests.gate.set()
    await settled()
    requests.gate.clear()
    arrives_in(Request.READY, Receiving.OPEN, Sending.CLEAR)
    assert await client.take_all() == framed(*bodies)

    await client.request(b"work", b"x")
    arrives_in(Request.WORKING, Receiving.OPEN, Sending.CLEAR)
    client.raw.client.end()
    await settled()
    arrives_in(Request.WORKING, Receiving.ENDING, Sending.CLEAR)
    requests.gate.set()
    assert opened(await client.raw.client.closed()) == framed(b"work", b"x")
    assert client.connection.state is CLOSED_STATE
    visited_by_side = [set(side) for side in zip(*visited, strict=True)]
    assert visited_by_side == [set(Request), set(Receiving), set(Sending)]


async def test_a_long_poll_is_abandoned_when_an_encrypted_stream_ends(serve: Serve) -> None:
    requests = Requests()
    given_up: list[bool] = []
    requests.promise.on_abandoned = lambda: given_up.append(True)
    client = Client(serve(requests))
    await client.shake_hands()
    await client.request(b"park")
    assert client.connection.state.sides == (Request.PARKED, Receiving.OPEN, Sending.CLEAR)
    client.raw.client.end()
    await client.raw.client.closed()
    await settled()
    assert given_up == [True]


def _anonymous(protocol: int) -> ssl.SSLContext:
    """TLS without a certificate, which would expire."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("window_bytes", [100, WINDOW_BYTES])
async def test_the_same_port_carries_openssl(serve: Serve, window_bytes: int) -> None:
    raw = MemoryPort(window_bytes)
    server_in, server_out, client_in, client_out = [ssl.MemoryBIO() for _ in range(4)]
    server_context = _anonymous(ssl.PROTOCOL_TLS_SERVER)
    engine: Any = server_context.wrap_bio(server_in, server_out, server_side=True)
    connection = serve(Requests()).serve(BioPort(raw, engine, server_in, server_out))
    tls = _anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(client_in, client_out)

    async def step(action: Callable[[], Any]) -> Any:
        while True:
            try:
                return action()
            except ssl.SSLWantReadError:
                raw.client.write(client_out.read())
                client_in.write(raw.client.take() or await raw.client.read(1))

    await step(tls.do_handshake)
    bodies = [b"large", *[b"x" * 1000] * 20]
    await step(lambda: tls.write(framed(*bodies)))
    expected = framed(bytes(LARGE_BYTES), *bodies[1:])
    answered = b""
    while len(answered) < len(expected):
        answered += await step(lambda: tls.read(1 << 20))
    assert answered == expected
    assert connection.state.takes_requests
