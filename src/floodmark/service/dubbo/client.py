"""The client side of the Dubbo protocol: one connection, many concurrent calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from floodmark.service.dubbo.frames import (
    EVENT,
    HEADER,
    HEADER_BYTES,
    HESSIAN2,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    READONLY_BODY,
    REQUEST,
    TWO_WAY,
    FrameError,
    Frames,
    Status,
    heartbeat,
    heartbeat_answer,
)
from floodmark.service.dubbo.responses import Outcome, read_outcome
from floodmark.service.errors import RpcError
from floodmark.service.hessian import Decoder, Encoder, HessianError, JavaClasses
from floodmark.service.hints import Writer

HEARTBEAT_SECONDS = 60.0
MISSED_HEARTBEATS = 3
CONNECT_TIMEOUT_SECONDS = 3.0

_SPACE = bytes(HEADER_BYTES)
_CODES = {
    Status.CLIENT_TIMEOUT: RpcError.TIMEOUT,
    Status.SERVER_TIMEOUT: RpcError.TIMEOUT,
    Status.CHANNEL_INACTIVE: RpcError.NETWORK,
    Status.BAD_RESPONSE: RpcError.SERIALIZATION,
    Status.SERVER_THREADPOOL_EXHAUSTED: RpcError.LIMIT_EXCEEDED,
}


class DubboClient(asyncio.Protocol):
    """A connection to one provider."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        """Calls `on_change` when the connection is closed or accepts no more calls."""
        self._loop = asyncio.get_running_loop()
        self.on_change = on_change
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, tuple[asyncio.Future[Outcome], JavaClasses]] = {}
        self._next_id = 0
        self._out: list[bytes | bytearray] = []
        self._last_read = self._loop.time()
        self._beat: asyncio.TimerHandle | None = None
        self.is_readonly = False

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        on_change: Callable[[], None] | None = None,
        timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
    ) -> DubboClient:
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(lambda: cls(on_change), host, port)
        try:
            _, client = await asyncio.wait_for(connecting, timeout_seconds)
        except (OSError, TimeoutError) as error:
            text = f"provider {host}:{port} is unreachable: {error or 'timeout'}"
            raise RpcError(text, RpcError.NETWORK) from error
        return client

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def calls(self) -> int:
        return len(self._waiting)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._beat = self._loop.call_later(HEARTBEAT_SECONDS, self._keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._beat is not None:
            self._beat.cancel()
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(RpcError("the connection was closed", RpcError.NETWORK))
        if self.on_change is not None:
            self.on_change()

    def data_received(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        try:
            for flags, status, request_id, body in self._frames.feed(data):
                self._frame(flags, status, request_id, body)
        except FrameError:
            self.close()

    def _frame(self, flags: int, status: int, request_id: int, body: bytes) -> None:
        if not flags & REQUEST:
            if not flags & EVENT:
                self._response(status, request_id, body)
            return
        if flags & TWO_WAY:
            self._send(heartbeat_answer(request_id))
        elif body == READONLY_BODY:
            self.is_readonly = True
            if self.on_change is not None:
                self.on_change()

    def _response(self, status: int, request_id: int, body: bytes) -> None:
        future, classes = self._waiting.pop(request_id, (None, None))
        if future is None or classes is None or future.done():
            return  # too late
        try:
            if status == Status.OK:
                future.set_result(read_outcome(body, classes))
            else:
                future.set_exception(RpcError(Decoder(body).read_text(), _code(status)))
        except HessianError as error:
            future.set_exception(RpcError(f"broken response: {error}", RpcError.SERIALIZATION))

    # Calls

    async def call(
        self,
        path: str,
        version: str,
        method: str,
        descriptor: str,
        arguments: Sequence[tuple[Writer, Any]],
        attachments: Mapping[str, str],
        classes: JavaClasses,
        timeout_seconds: float | None,
    ) -> Outcome:
        """Waits for the response. Without a timeout, the call is one-way and has none."""
        if not self.is_open:
            raise RpcError("the connection was closed", RpcError.NETWORK)
        self._next_id += 1
        request_id = self._next_id
        flags = REQUEST | HESSIAN2 | (TWO_WAY if timeout_seconds is not None else 0)
        data = _request(
            flags, request_id, path, version, method, descriptor, arguments, attachments, classes
        )
        if timeout_seconds is None:
            self._send(data)
            return Outcome(None, None, {})
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting[request_id] = (future, classes)
        self._send(data)
        try:
            return await asyncio.wait_for(future, timeout_seconds)
        except TimeoutError:
            text = f"{path}.{method} did not respond within {timeout_seconds} s"
            raise RpcError(text, RpcError.TIMEOUT) from None
        finally:
            self._waiting.pop(request_id, None)

    def _send(self, data: bytes | bytearray) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None:
            self._transport.write(b"".join(out))

    def _keep_alive(self) -> None:
        silent = self._loop.time() - self._last_read
        if silent > HEARTBEAT_SECONDS * MISSED_HEARTBEATS:
            self.close()
            return
        if silent > HEARTBEAT_SECONDS * 0.9:
            self._next_id += 1
            self._send(heartbeat(self._next_id))
        self._beat = self._loop.call_later(HEARTBEAT_SECONDS, self._keep_alive)

    def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()


def _code(status: int) -> int:
    with contextlib.suppress(ValueError):
        return _CODES.get(Status(status), RpcError.UNKNOWN)
    return RpcError.UNKNOWN


def _request(
    flags: int,
    request_id: int,
    path: str,
    version: str,
    method: str,
    descriptor: str,
    arguments: Sequence[tuple[Writer, Any]],
    attachments: Mapping[str, str],
    classes: JavaClasses,
) -> bytearray:
    encoder = Encoder(classes)
    encoder.out += _SPACE
    for text in (PROTOCOL_VERSION, path, version, method, descriptor):
        encoder.write_text(text)
    try:
        for write, value in arguments:
            encoder.write_whole(value, write)
    except HessianError as error:
        raise RpcError(f"an argument of {method}: {error}", RpcError.SERIALIZATION) from error
    encoder.write_map(attachments)
    size = len(encoder.out) - HEADER_BYTES
    if size > MAX_PAYLOAD_BYTES:
        raise RpcError(f"a request of {size} bytes, {MAX_PAYLOAD_BYTES} at most")
    HEADER.pack_into(encoder.out, 0, MAGIC, flags, 0, request_id, size)
    return encoder.out
