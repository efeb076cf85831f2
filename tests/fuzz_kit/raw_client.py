"""A blocking client that sends exactly the bytes it is told to, for tests of bad input."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Self

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, encode
from floodmark.wire.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from floodmark.wire.messages import response_class
from floodmark.wire.schema import schema_of

TIMEOUT_S = 10.0


class RawClient:
    def __init__(self, bootstrap_servers: str, timeout_s: float = TIMEOUT_S) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def ask(self, message: Any, version: int) -> Any:
        """Sends a message and returns the answer to it."""
        self.send_frame(request_bytes(message, version))
        return answer_of(message, self.read_frame(), version)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(len(body).to_bytes(4, "big") + body)

    def read_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def settle(self, within_s: float = 0.3) -> None:
        """Waits for an answer or the end of the connection, which may both not come."""
        self._socket.settimeout(within_s)
        with contextlib.suppress(TimeoutError, ConnectionError):
            self.read_frame()

    def is_closed(self) -> bool:
        """Waits for the broker to end the connection; False when it sends something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)


def request_bytes(message: Any, version: int) -> bytes:
    """Header and body, as they stand in a frame."""
    api_key: ApiKey | None = schema_of(type(message)).api_key
    assert api_key is not None
    return encode_request_header(RequestHeader(api_key, version, 7, "raw")) + encode(
        message, version
    )


def answer_of(message: Any, frame: bytes, version: int) -> Any:
    """What a frame says that answers this message."""
    api_key = schema_of(type(message)).api_key
    assert api_key is not None
    _, position = decode_response_header(frame, response_header_version(api_key, version))
    return decode(response_class(api_key), frame, version, position)
