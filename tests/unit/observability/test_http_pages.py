"""The few lines of HTTP behind /metrics and /healthz, with pages made for the test."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from floodmark.observability import http
from floodmark.observability.http import MAX_CONNECTIONS, Answer, MetricsServer, serve_metrics
from floodmark.testing.broker_thread import BrokerThread


async def hello() -> Answer:
    return Answer(HTTPStatus.OK, "text/plain", b"hello\n")


@pytest.fixture
async def server() -> AsyncIterator[MetricsServer]:
    server = MetricsServer({"/metrics": hello})
    await server.start("127.0.0.1", 0)
    yield server
    await server.close()


async def ask(server: MetricsServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_known_page_is_answered(server: MetricsServer) -> None:
    answer = await ask(server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 6" in head
    assert body == b"hello\n"


async def test_head_gets_no_body(server: MetricsServer) -> None:
    answer = await ask(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, b"400"),
    ],
    ids=["unknown path", "other method", "TLS bytes", "no version", "endless head"],
)
async def test_what_is_not_a_scrape_is_refused(
    server: MetricsServer, request_bytes: bytes, status: bytes
) -> None:
    answer = await ask(server, request_bytes)
    # The peer may see a reset instead when it was still sending.
    assert not answer or answer.split(b" ")[1] == status
    assert b"hello" in await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")


async def test_a_silent_peer_is_cut_off(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.05)
    assert await ask(server, b"GET /metr") == b""


async def test_too_many_connections_are_turned_away(server: MetricsServer) -> None:
    held = [await asyncio.open_connection(server.host, server.port) for _ in range(MAX_CONNECTIONS)]
    assert await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    while not await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n"):
        pass  # the server learns of the closed ones in its own time


async def test_metrics_are_served_on_a_host_of_their_own(floodmark: BrokerThread) -> None:
    for host, expected in ((None, "127.0.0.1"), ("127.0.0.2", "127.0.0.2")):
        server = floodmark.call(serve_metrics(floodmark.broker, 0, host))
        try:
            assert server.host == expected
            assert b"200 OK" in await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n")
        finally:
            floodmark.call(server.close())
