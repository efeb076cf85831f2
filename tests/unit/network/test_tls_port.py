"""The port of a listener with TLS, over memory: OpenSSL at both ends, no sockets."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from floodmark.network.connection import Connection
from floodmark.network.processor import StrangerLimits
from floodmark.network.states import CLOSED_STATE
from floodmark.network.tls_port import MAX_UNSENT_BYTES, SEND_BYTES, TlsPort, new_scratch
from floodmark.security.tls_context import client_context, server_tls
from floodmark.security.tls_settings import PEM, REQUIRED, StoreSettings, TlsSettings
from floodmark.testing.memory_port import WINDOW_BYTES, MemoryPort
from kit.certificates import Authority
from kit.connections import MemoryServer, settled

Serve = Callable[..., MemoryServer]
LARGE_BYTES = 3 * SEND_BYTES


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def echo(_: Any, frame: memoryview) -> bytes:
    return bytes(LARGE_BYTES) if frame == b"large" else bytes(frame)


class Client:
    """A TLS client in memory."""

    def __init__(
        self,
        server: MemoryServer,
        authority: Authority,
        *,
        server_settings: dict[str, Any] | None = None,
        client_store: StoreSettings | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.raw = MemoryPort(window_bytes)
        self.certificates: list[bytes | None] = []
        self.failures: list[str] = []
        key_store = StoreSettings(PEM, str(authority.server()))
        trust_store = StoreSettings(PEM, str(authority.ca_file))
        settings = TlsSettings(key_store, trust_store, **(server_settings or {}))
        self.port = TlsPort(
            self.raw,
            server_tls(settings).context,
            asyncio.get_running_loop(),
            new_scratch(),
            self.certificates.append,
            self.failures.append,
        )
        self.connection: Connection = server.serve(self.port)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(
            TlsSettings(trust_store=trust_store, key_store=client_store or StoreSettings())
        )
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")

    async def step(self, action: Callable[[], Any]) -> Any:
        while True:
            try:
                result = action()
                self.push()
                return result
            except ssl.SSLWantReadError:
                self.push()
                self._in.write(self.raw.client.take() or await self.raw.client.read(1))

    def push(self) -> None:
        if self._out.pending:
            self.raw.client.write(self._out.read())

    async def shake_hands(self) -> None:
        await self.step(self.tls.do_handshake)

    async def request(self, *bodies: bytes) -> None:
        await self.step(lambda: self.tls.write(framed(*bodies)))

    async def read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            data += await self.step(lambda: self.tls.read(1 << 20))
        return data


@pytest.mark.parametrize("window_bytes", [100, WINDOW_BYTES])
async def test_requests_and_answers_of_all_sizes_pass(serve: Serve, authority, window_bytes):
    client = Client(serve(echo), authority, window_bytes=window_bytes)
    await client.shake_hands()
    bodies = [b"large", *[bytes([number]) * 7000 for number in range(40)], b"x" * 400_000]
    sending = asyncio.create_task(client.request(*bodies))
    expected = framed(bytes(LARGE_BYTES), *bodies[1:])
    assert await client.read(len(expected)) == expected
    await sending
    assert client.connection.state.takes_requests
    assert client.certificates == [None]


async def test_several_requests_in_one_record_are_all_served(serve: Serve, authority):
    client = Client(serve(echo), authority)
    await client.shake_hands()
    bodies = [b"a" * 900] * 17
    await client.request(*bodies)
    assert await client.read(len(framed(*bodies))) == framed(*bodies)


async def test_a_client_shows_its_certificate(serve: Serve, authority):
    client = Client(
        serve(echo),
        authority,
        server_settings={"client_auth": REQUIRED},
        client_store=StoreSettings(PEM, str(authority.client("alice"))),
    )
    await client.shake_hands()
    await client.request(b"x")
    await client.read(5)
    (certificate,) = client.certificates
    assert certificate and b"alice" in certificate


async def test_a_client_without_the_certificate_that_is_required_is_told_and_closed(
    serve: Serve, authority
):
    client = Client(serve(echo), authority, server_settings={"client_auth": REQUIRED})
    await client.shake_hands()
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        await client.step(lambda: client.tls.read(10))
    await settled()
    assert client.connection.state is CLOSED_STATE
    assert client.failures == ["peer did not return a certificate"]


@pytest.mark.parametrize("first", [framed(b"\0\x12\0\3" + bytes(20)), b"GET / HTTP/1.1\r\n\r\n"])
async def test_plaintext_on_a_tls_port_ends_that_connection_only(serve: Serve, authority, first):
    server = serve(echo)
    other, client = Client(server, authority), Client(server, authority)
    client.raw.client.write(first)
    await client.raw.client.closed()
    await settled()
    assert len(client.failures) == 1
    await other.shake_hands()
    await other.request(b"x")
    assert await other.read(5) == framed(b"x")
    assert server.connections == 1


async def test_a_tls_hello_on_a_plaintext_port_ends_that_connection(serve: Serve, authority):
    plain = serve(echo).connect()
    client = Client(serve(echo), authority)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    plain.write(client._out.read())
    assert await plain.closed() == b""


async def test_a_silent_client_has_no_openssl_state_and_is_closed_in_time(serve: Serve, authority):
    server = serve(echo)
    client = Client(server, authority)
    client.connection.peer.forget_principal()
    assert client.port._engine is None
    server.processor.strangers = StrangerLimits(timeout_ms=3000)
    server.processor.sweep()
    server.clock.advance(2000)
    server.processor.sweep()
    assert server.connections == 1
    server.clock.advance(2000)
    server.processor.sweep()
    await client.raw.client.closed()
    await settled()
    assert server.connections == 0


async def test_the_end_of_a_connection_is_announced(serve: Serve, authority):
    client = Client(serve(echo), authority)
    await client.shake_hands()
    await client.request(b"x")
    await client.read(5)
    client.connection.close()
    assert await client.step(lambda: client.tls.read(10)) == b""


async def test_a_client_that_leaves_without_goodbye_is_noticed(serve: Serve, authority):
    client = Client(serve(echo), authority)
    await client.shake_hands()
    client.raw.client.end()
    await client.raw.client.closed()
    assert client.connection.state is CLOSED_STATE


async def test_broken_records_end_the_connection(serve: Serve, authority):
    client = Client(serve(echo), authority)
    await client.shake_hands()
    client.raw.client.write(b"\x17\x03\x03\x00\x20" + bytes(32))
    await client.raw.client.closed()
    assert client.connection.state is CLOSED_STATE


class AnswersAll:
    """An engine to which everything is a key update: it answers, and has nothing for us."""

    def __init__(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def read(self, *_: object) -> int:
        self._outgoing.write(self._incoming.read())
        raise ssl.SSLWantReadError

    def pending(self) -> int:
        return 0


async def test_a_client_that_asks_for_key_updates_and_reads_none_is_closed(serve: Serve, authority):
    """Python cannot ask for one, so the engine is another: what counts is what the port keeps."""
    client = Client(serve(echo), authority)
    await client.shake_hands()
    await client.request(b"x")
    await client.read(5)
    port = client.port
    port._engine = AnswersAll(port._incoming, port._outgoing)  # type: ignore[assignment]
    most_bytes = 0
    for _ in range(100):
        if client.connection.state is CLOSED_STATE:
            break
        client.raw.client.write(bytes(50_000))
        await settled()
        most_bytes = max(most_bytes, len(port._unsent))
    assert client.connection.state is CLOSED_STATE
    assert SEND_BYTES < most_bytes < MAX_UNSENT_BYTES + 150_000
