"""A triple consumer's HTTP/2 connection. Each stream is a call."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from floodmark.service.call import Call, enter_call
from floodmark.service.dispatch import Prepared, java_exception, prepare
from floodmark.service.dubbo.frames import MAX_PAYLOAD_BYTES
from floodmark.service.errors import RpcError
from floodmark.service.hessian import Encoder, HessianError, read_all
from floodmark.service.invoker import Invoker, NoSuchMethod, Runs, contained
from floodmark.service.server import ServedConnection
from floodmark.service.triple.messages import (
    PREFIX_BYTES,
    grpc_frame,
    read_grpc_frame,
    read_request,
    write_response,
)

if TYPE_CHECKING:
    from floodmark.service.triple.server import TripleServer

MAX_STREAMS = 1_000
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""The limit for unfinished requests, with their headers, and unread responses of a connection."""

_WINDOW = 1024 * 1024
_HEADERS = [(":status", "200"), ("content-type", "application/grpc+proto")]
_OWN_HEADERS = frozenset({"content-type", "te", "grpc-timeout", "grpc-accept-encoding"})
_MAX_MESSAGE = 1_000
_PING = b"are you?"

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 8, 12, 13
EXCEPTION_OF_THE_METHOD = "3"
"""tri-exception-code for an exception in the body; the status is then OK."""


class _Stream:
    """The received part of a request, and the unsent part of its response."""

    __slots__ = ("body", "header_bytes", "headers", "rest", "trailers")

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self.header_bytes = sum(len(name) + len(value) for name, value in headers.items())
        self.body = bytearray()
        self.rest = memoryview(b"")
        self.trailers: list[tuple[str, str]] | None = None


class TripleConnection(ServedConnection):
    """A consumer."""

    def __init__(self, server: TripleServer) -> None:
        super().__init__()
        self._server = server
        self._loop = asyncio.get_running_loop()
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, _Stream] = {}
        self._waiting_bytes = 0
        self._calls = 0
        self._has_new_window = False
        self._last_read = self._last_asked = self._loop.time()
        self._began: dict[int, float] = {}
        """Since when each stream has been waiting for its consumer: for the rest of a request, or
        for room to send the rest of an answer."""
        self._tasks: set[asyncio.Task[None]] = set()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._is_accepted(transport, self._server):
            return
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW * 15)
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._streams.clear()
        self._began.clear()
        self._note_waiting(-self._waiting_bytes)
        self._server.closed(self)

    def pause_writing(self) -> None:
        """The consumer does not read its responses, so we accept no more requests."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        try:
            events = self._h2.receive_data(data)
            # h2 has processed all of them and knows nothing more of a stream that was reset.
            over = {e.stream_id for e in events if isinstance(e, h2.events.StreamReset)}
            for event in events:
                if getattr(event, "stream_id", None) not in over:
                    self._event(event)
            for stream_id in over:
                self._forget(stream_id or 0)
            self._send_all_rests()
        except (h2.exceptions.ProtocolError, UnicodeDecodeError) as error:
            self._server.warn("http2", f"closed {self.remote_address}: {error}")
            self._write()
            self.close()
            return
        self._write()

    def _event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                headers = {str(name): str(value) for name, value in event.headers or []}
                self._begin(event.stream_id or 0, _Stream(headers))
            case h2.events.DataReceived():
                self._data(event)
            case h2.events.StreamEnded():
                self._request(event.stream_id or 0)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._has_new_window = True
            case h2.events.ConnectionTerminated():
                self.close()

    def _begin(self, stream_id: int, stream: _Stream) -> None:
        self._streams[stream_id] = stream
        self._began[stream_id] = self._last_read
        self._note_waiting(stream.header_bytes)
        if self._is_overfull():
            self._reset(stream_id)

    def _is_overfull(self) -> bool:
        return self._waiting_bytes > MAX_WAITING_BYTES or self._server.is_overfull()

    def _reset(self, stream_id: int) -> None:
        self._h2.reset_stream(stream_id, error_code=11)  # ENHANCE_YOUR_CALM
        self._forget(stream_id)

    def _data(self, event: h2.events.DataReceived) -> None:
        stream_id = event.stream_id or 0
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        data = event.data or b""
        stream.body += data
        self._note_waiting(len(data))
        if len(stream.body) > MAX_PAYLOAD_BYTES + PREFIX_BYTES or self._is_overfull():
            self._reset(stream_id)

    def _note_waiting(self, size: int) -> None:
        self._waiting_bytes += size
        self._server.buffered_bytes += size

    def _forget(self, stream_id: int) -> None:
        self._began.pop(stream_id, None)
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._note_waiting(-stream.header_bytes - len(stream.body) - len(stream.rest))

    # Calls

    def _request(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        body = bytes(stream.body)
        self._note_waiting(-len(body))
        self._began.pop(stream_id, None)
        stream.body.clear()
        _, _, rest = stream.headers.get(":path", "").partition("/")
        path, _, method = rest.rpartition("/")
        invoker = self._server.find(
            path,
            stream.headers.get("tri-service-group", ""),
            stream.headers.get("tri-service-version", ""),
        )
        if invoker is None:
            self._fail(stream_id, UNIMPLEMENTED, f"Service not found: {path}")
            return
        invoker.last_call = self._loop.time()
        attachments = {
            name: value
            for name, value in stream.headers.items()
            if not name.startswith(":") and name not in _OWN_HEADERS
        }
        try:
            encoded, _types = read_request(read_grpc_frame(body))
            arguments = read_all(encoded, invoker.classes)
            prepared = prepare(invoker, method, arguments, attachments)
            # A stream that its consumer resets is gone, but its call goes on.
            if self._calls >= MAX_STREAMS or not self._server.may_begin():
                self._fail(stream_id, RESOURCE_EXHAUSTED, "too many calls in progress")
                return
            if prepared.handle is not None:
                prepared.handle.begin()
        except NoSuchMethod as error:
            self._fail(stream_id, UNIMPLEMENTED, str(error))
            return
        except HessianError as error:
            self._fail(stream_id, INVALID_ARGUMENT, str(error))
            return
        except RpcError as error:
            self._fail(stream_id, INTERNAL, str(error))
            return
        call = Call(method, attachments, self.remote_address)
        self._calls += 1
        self._server.begun()
        task = self._loop.create_task(self._run(stream_id, invoker, prepared, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, stream_id: int, invoker: Invoker, prepared: Prepared, call: Call) -> None:
        enter_call(call)
        began = self._loop.time()
        try:
            value = await self._outcome(prepared)
            if prepared.finish is not None:
                value = prepared.finish(value)
        except HessianError as error:
            self._fail_to_answer(stream_id, call, error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the method's outcome
            thrown = java_exception(error, invoker, is_generic=prepared.is_generic)
            self._answer(stream_id, invoker, Encoder.write, thrown, call, thrown.java_class)
        else:
            self._answer(stream_id, invoker, prepared.write, value, call, "")
        finally:
            if prepared.handle is not None:
                prepared.handle.end()
                self._server.note_duration(prepared.handle, self._loop.time() - began)
            self._calls -= 1
            self._server.ended()

    async def _outcome(self, prepared: Prepared) -> Any:
        handle, server = prepared.handle, self._server
        if handle is None:
            return prepared.arguments[0]
        if handle.runs is Runs.INLINE:
            return handle.function(*prepared.arguments)
        if handle.runs is Runs.ON_THE_LOOP:
            return await handle.function(*prepared.arguments)
        if server.calls_in_threads >= server.max_threads:
            raise RpcError("Server side thread pool is exhausted", RpcError.LIMIT_EXCEEDED)
        server.calls_in_threads += 1
        try:
            return await self._loop.run_in_executor(
                server.threads,
                copy_context().run,
                contained,
                handle.function,
                *prepared.arguments,
            )
        finally:
            server.calls_in_threads -= 1

    # Answers

    def _answer(
        self,
        stream_id: int,
        invoker: Invoker,
        write: Any,
        value: Any,
        call: Call,
        exception_class: str,
    ) -> None:
        encoder = Encoder(invoker.classes)
        try:
            if value is None:
                encoder.write_none()
            else:
                encoder.write_whole(value, write)
            if len(encoder.out) > MAX_PAYLOAD_BYTES:
                raise HessianError(f"a result of {len(encoder.out)} bytes")
            if self._waiting_bytes + len(encoder.out) > MAX_WAITING_BYTES:
                raise HessianError("too many results wait for this consumer")
        except HessianError as error:
            self._fail_to_answer(stream_id, call, error)
            return
        headers = list(_HEADERS)
        if exception_class:
            headers.append(("tri-exception-code", EXCEPTION_OF_THE_METHOD))
        extra = [(name.lower(), quote(text)) for name, text in call.response_attachments.items()]
        java = exception_class or "java.lang.Object"
        body = grpc_frame(write_response(encoder.take(), java))
        self._send(stream_id, headers, body, [("grpc-status", "0"), *extra])

    def _fail_to_answer(self, stream_id: int, call: Call, error: HessianError) -> None:
        self._fail(stream_id, INTERNAL, f"Failed to send response of {call.method}: {error}")

    def _fail(self, stream_id: int, status: int, text: str) -> None:
        self._server.warn(f"{status} {text}", f"refused a call of {self.remote_address}: {text}")
        message = quote(text[:_MAX_MESSAGE], safe=" ")
        trailers = [("grpc-status", str(status)), ("grpc-message", message)]
        self._send(stream_id, list(_HEADERS), b"", trailers)

    def _send(
        self,
        stream_id: int,
        headers: list[tuple[str, str]],
        body: bytes,
        trailers: list[tuple[str, str]],
    ) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or self._transport is None:
            return  # the consumer has given up
        self._h2.send_headers(stream_id, headers)
        stream.rest, stream.trailers = memoryview(body), trailers
        self._note_waiting(len(body))
        self._send_rest(stream_id)
        self._write()

    def _send_rest(self, stream_id: int) -> None:
        """Sends as much of a response as the consumer's window allows."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.trailers is None:
            return
        while stream.rest:
            window = self._h2.local_flow_control_window(stream_id)
            size = min(len(stream.rest), window, self._h2.max_outbound_frame_size)
            if size <= 0:
                self._began.setdefault(stream_id, self._loop.time())
                return
            self._h2.send_data(stream_id, bytes(stream.rest[:size]))
            self._note_waiting(-size)
            stream.rest = stream.rest[size:]
        self._h2.send_headers(stream_id, stream.trailers, end_stream=True)
        self._forget(stream_id)

    def _send_all_rests(self) -> None:
        """Once for all window updates of a turn: a consumer may send thousands of them, and have a
        thousand streams that wait."""
        if self._has_new_window:
            self._has_new_window = False
            for stream_id in list(self._streams):
                self._send_rest(stream_id)

    def _write(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def keep_alive(self, now: float, heartbeat_seconds: float, missed: int) -> None:
        """Sends HTTP/2 pings, and ends streams that their consumers have left unfinished for as
        long as missing pings are tolerated."""
        if self._transport is None or self._transport.is_closing():
            return
        patience = heartbeat_seconds * missed
        for stream_id in [key for key, began in self._began.items() if now - began > patience]:
            self._server.warn("slow", f"ended a call that waits for {self.remote_address}")
            self._reset(stream_id)
        self._write()
        # Send a ping before giving up: the loop itself may have been late.
        if now - self._last_read > patience and self._last_asked > self._last_read:
            self._server.warn("silent", f"closed {self.remote_address}: silent for too long")
            self.abort()
        elif now - max(self._last_read, self._last_asked) > heartbeat_seconds:
            self._last_asked = now
            self._h2.ping(_PING)
            self._write()

    def say_goodbye(self) -> None:
        """Sends GOAWAY: streams in progress finish, new ones go elsewhere.

        It names the highest possible number, because streams already on their way are served too.
        """
        if self._transport is not None:
            last = (1 << 31) - 1
            frame = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + last.to_bytes(4, "big") + bytes(4)
            # Manually: after its own close_connection, h2 would send no more responses.
            self._transport.write(self._h2.data_to_send() + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
