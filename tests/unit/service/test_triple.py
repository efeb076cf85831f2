"""Triple's server: what plain Java interfaces need, and peers that misbehave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

import floodmark.service.server as any_server
from floodmark.service.hessian import HessianError, dumps, loads, read_all
from floodmark.service.interface import interface_of
from floodmark.service.invoker import Invoker
from floodmark.service.triple.connection import MAX_STREAMS, TripleConnection
from floodmark.service.triple.messages import (
    grpc_frame,
    read_grpc_frame,
    read_request,
    write_response,
)
from floodmark.service.triple.server import TripleServer
from floodmark.service.url import URL
from kit.sample_service import INTERFACE, Sample
from kit.waiting import eventually

SAMPLE = interface_of(Sample, INTERFACE)


class Client:
    """A triple consumer, one call at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        self._h2.initiate_connection()

    async def call(
        self, method: str, body: bytes, path: str = INTERFACE
    ) -> tuple[dict[str, str], bytes]:
        """Headers and trailers together, and the message."""
        stream_id = self._h2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x")]
        headers += [(":path", f"/{path}/{method}"), ("content-type", "application/grpc+proto")]
        self._h2.send_headers(stream_id, headers)
        found: dict[str, str] = {}
        data = bytearray()
        position = 0
        while True:
            while position < len(body):
                window = self._h2.local_flow_control_window(stream_id)
                size = min(len(body) - position, window, self._h2.max_outbound_frame_size)
                if size <= 0:
                    break
                self._h2.send_data(stream_id, body[position : position + size])
                position += size
                if position == len(body):
                    self._h2.end_stream(stream_id)
            self._writer.write(self._h2.data_to_send())
            received = await self._reader.read(65536)
            assert received, "the server has closed the connection"
            for event in self._h2.receive_data(received):
                match event:
                    case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                        found |= {str(k): str(v) for k, v in event.headers or []}
                    case h2.events.DataReceived():
                        data += event.data or b""
                        self._h2.acknowledge_received_data(
                            event.flow_controlled_length or 0, stream_id
                        )
                    case h2.events.StreamEnded():
                        return found, bytes(data)
                    case h2.events.StreamReset():
                        return {"reset": str(event.error_code)}, b""


@asynccontextmanager
async def served(heartbeat_seconds: float = 60) -> AsyncIterator[tuple[TripleServer, Client]]:
    server = TripleServer("127.0.0.1", 0, heartbeat_seconds=heartbeat_seconds)
    await server.start()
    server.add(Invoker(Sample(), SAMPLE, URL("tri", "127.0.0.1", server.port, INTERFACE)))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    yield server, Client(reader, writer)
    writer.close()
    await server.stop()


def request(*arguments: Any) -> bytes:
    """A TripleRequestWrapper has the fields of a response: serialisation, bytes, texts."""
    message = b"\x0a\x08hessian4"
    for argument in arguments:
        message += write_response(dumps(argument), "x")[10:]
    return grpc_frame(message)


def value(body: bytes) -> Any:
    _, encoded = read_grpc_frame(body), body
    (data,), _ = read_request(read_grpc_frame(encoded))
    return loads(data, SAMPLE.classes)


async def test_calls_are_answered_however_large() -> None:
    async with served() as (_, client):
        headers, body = await client.call("hello", request("x"))
        assert (headers[":status"], headers["grpc-status"], value(body)) == ("200", "0", "hello x")
        large = "é😀x" * 300_000
        headers, body = await client.call("text", request(large))
        assert value(body) == large
        headers, body = await client.call("helloInThread", request("x"))
        assert value(body) == "hello x from floodmark-service"


async def test_an_exception_of_the_method_is_in_the_body() -> None:
    async with served() as (_, client):
        headers, body = await client.call("find", request(5))
        assert (headers["grpc-status"], headers["tri-exception-code"]) == ("0", "3")
        assert value(body).order_id == 5


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("hello", "dev.Unknown", request("x"), "12"),
        ("unheardOf", INTERFACE, request(), "12"),
        ("hello", INTERFACE, request(5), "3"),
        ("hello", INTERFACE, b"\x00\x00\x00\x00\x01\xff", "3"),
        ("hello", INTERFACE, b"\x01" + request("x")[1:], "3"),
        ("hello", INTERFACE, b"\x00", "3"),
        ("unwritable", INTERFACE, request(), "13"),
    ],
)
async def test_bad_calls_get_a_status_and_the_connection_goes_on(
    method: str, path: str, body: bytes, status: str
) -> None:
    async with served() as (_, client):
        headers, _ = await client.call(method, body, path)
        assert headers["grpc-status"] == status and headers["grpc-message"]
        headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"


async def test_an_oversized_request_ends_its_stream_only() -> None:
    async with served() as (_, client):
        headers, _ = await client.call("text", bytes(9 * 1024 * 1024))
        assert headers == {"reset": "11"}
        headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"


async def test_foreign_bytes_end_only_their_connection() -> None:
    async with served() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 3)
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"


async def test_a_header_that_is_no_text_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        peer.initiate_connection()
        headers = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"x")]
        peer.send_headers(1, [*headers, (b":path", b"/x/y"), (b"trace", b"\xff\xfe")])
        writer.write(peer.data_to_send())
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert "Fatal error" not in caplog.text
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"


async def test_silent_consumers_are_asked_and_given_up() -> None:
    async with served(heartbeat_seconds=0.06) as (server, _client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = opened(writer)
        asked = False
        while data := await asyncio.wait_for(reader.read(65536), 5):
            events = peer.receive_data(data)  # never answered
            asked = asked or any(isinstance(item, h2.events.PingReceived) for item in events)
        assert asked
        writer.close()


async def test_a_request_that_never_ends_is_ended() -> None:
    async with served(heartbeat_seconds=0.3) as (server, _client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = opened(writer)
        while True:
            data = await asyncio.wait_for(reader.read(65536), 5)
            assert data, "the server has closed the connection"
            events = peer.receive_data(data)
            writer.write(peer.data_to_send())  # pings are answered
            if any(isinstance(item, h2.events.StreamReset) for item in events):
                break
        writer.close()
        assert server.buffered_bytes == 0


async def test_unfinished_requests_of_all_consumers_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(any_server, "MAX_BUFFERED_BYTES", 100_000)
    async with served() as (server, client):
        writers = []
        for _ in range(10):
            _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            peer = opened(writer)
            for _ in range(3):
                peer.send_data(1, bytes(16_000))
            writer.write(peer.data_to_send())
            writers.append(writer)
        await eventually(lambda: 0 < server.buffered_bytes <= 100_000)
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"
        for writer in writers:
            writer.transport.abort()
        await eventually(lambda: not server.buffered_bytes)


async def test_a_call_with_millions_of_arguments_is_refused_at_once() -> None:
    """A few bytes each: unread, they are a frame of 4 MB."""
    began = time.monotonic()
    with pytest.raises(HessianError, match="fields"):
        read_request(b"\x0a\x08hessian4" + b"\x12\x01N" * 1_400_000)
    assert time.monotonic() - began < 1


async def test_the_limits_of_a_message_hold_for_all_arguments_of_a_call() -> None:
    """Each refers to a list of a million items, which code that walks an argument meets again."""
    items = b"\x58\x49" + (1_000_000).to_bytes(4, "big") + b"\x91" * 1_000_000
    large = b"\x7a" + items + b"\x51\x91"
    with pytest.raises(HessianError, match="items"):
        read_all([large, large, large])
    assert len(read_all([large])[0]) == 2


async def test_a_flood_of_window_updates_does_not_stop_the_loop() -> None:
    """A thousand streams wait for a window, and each update is for all of them."""
    async with served() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration())
        peer.initiate_connection()
        peer.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for number in range(900):
            asking(peer, number, "hello", request("x"))
        writer.write(peer.data_to_send())
        (flooded,) = [
            one
            for one in server.connections
            if one.remote_address.endswith(f":{writer.get_extra_info('sockname')[1]}")
        ]
        assert isinstance(flooded, TripleConnection)
        await eventually(lambda: len(flooded._began) == 900)
        reading = asyncio.create_task(reader.read())
        began = time.monotonic()
        writer.write(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01" * 20_000)
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"
        assert time.monotonic() - began < 5
        writer.transport.abort()
        with suppress(ConnectionError):
            await reading


def asking(peer: h2.connection.H2Connection, number: int, method: str, body: bytes) -> int:
    """A whole request on a stream of its own."""
    stream_id = 2 * number + 1
    headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x")]
    peer.send_headers(stream_id, [*headers, (":path", f"/{INTERFACE}/{method}")])
    peer.send_data(stream_id, body, end_stream=True)
    return stream_id


async def test_streams_that_are_reset_do_not_make_calls_without_end() -> None:
    """Each is gone when the next one begins, but its call goes on."""
    async with served() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration())
        peer.initiate_connection()
        peer.receive_data(await reader.read(65536))  # its window is large enough for all
        rounds, at_once = 15, 200
        for first in range(0, rounds * at_once, at_once):
            ids = [asking(peer, first + n, "pause", request(2_000)) for n in range(at_once)]
            writer.write(peer.data_to_send())
            before = server.calls
            await eventually(lambda before=before: server.calls > before or before == MAX_STREAMS)
            for stream_id in ids:
                peer.reset_stream(stream_id)
        writer.write(peer.data_to_send())
        assert server.calls <= MAX_STREAMS
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"
        writer.transport.abort()
        await eventually(lambda: server.calls == 0)


async def test_a_stream_that_is_reset_at_once_ends_no_other() -> None:
    async with served() as (server, _client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration())
        peer.initiate_connection()
        for number in range(3):
            peer.reset_stream(asking(peer, number, "unheardOf", request()))
        wanted = asking(peer, 3, "hello", request("x"))
        writer.write(peer.data_to_send())
        ended: set[int | None] = set()
        while wanted not in ended:
            data = await asyncio.wait_for(reader.read(65536), 5)
            assert data, "the server has closed the connection"
            events = peer.receive_data(data)
            ended |= {e.stream_id for e in events if isinstance(e, h2.events.StreamEnded)}
        writer.transport.abort()


async def test_headers_of_unfinished_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_server, "MAX_BUFFERED_BYTES", 1_000_000)
    async with served() as (server, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration())
        peer.initiate_connection()
        headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x")]
        headers += [(":path", f"/{INTERFACE}/hello")]
        for number in range(100):
            long = [(f"n{number}-{part}", "x" * 7_000) for part in range(7)]
            peer.send_headers(2 * number + 1, [*headers, *long])
            writer.write(peer.data_to_send())
        resets = 0
        while resets < 75:
            events = peer.receive_data(await asyncio.wait_for(reader.read(65536), 5))
            resets += sum(isinstance(one, h2.events.StreamReset) for one in events)
        assert 0 < server.buffered_bytes <= 1_000_000
        writer.transport.abort()
        await eventually(lambda: not server.buffered_bytes)
        _headers, answer = await client.call("hello", request("x"))
        assert value(answer) == "hello x"
        assert not server.buffered_bytes


async def test_a_window_that_a_setting_opens_is_used() -> None:
    async with served() as (server, _client):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        peer = h2.connection.H2Connection(h2.config.H2Configuration())
        peer.initiate_connection()
        peer.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        wanted = asking(peer, 0, "hello", request("x"))
        writer.write(peer.data_to_send())
        ended: set[int | None] = set()
        is_open = False
        while wanted not in ended:
            events = peer.receive_data(await asyncio.wait_for(reader.read(65536), 5))
            ended |= {e.stream_id for e in events if isinstance(e, h2.events.StreamEnded)}
            begun = any(isinstance(one, h2.events.ResponseReceived) for one in events)
            if begun and not is_open:
                is_open = True
                peer.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
            writer.write(peer.data_to_send())
        writer.transport.abort()


def opened(writer: asyncio.StreamWriter) -> h2.connection.H2Connection:
    """A connection with a request that has begun."""
    peer = h2.connection.H2Connection(h2.config.H2Configuration())
    peer.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "http"), (":authority", "x")]
    peer.send_headers(1, [*headers, (":path", f"/{INTERFACE}/hello")])
    writer.write(peer.data_to_send())
    return peer


@given(st.binary(max_size=80))
def test_random_wrappers_are_read_or_refused(data: bytes) -> None:
    with suppress(HessianError):
        read_request(data)
    with suppress(HessianError):
        read_grpc_frame(data)
