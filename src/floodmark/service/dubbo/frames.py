"""PURE: the 16-byte header of every Dubbo protocol message, and the body after it."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

MAGIC = 0xDABB
HEADER_BYTES = 16
HEADER = Struct(">HBBQI")
"""Magic, flags with the serialization number, status, request id, length of the body."""

REQUEST = 0x80
TWO_WAY = 0x40
EVENT = 0x20
SERIALIZATION_MASK = 0x1F
HESSIAN2 = 2

_MAGIC_BYTES = MAGIC.to_bytes(2, "big")

NULL_BODY = b"N"
READONLY_BODY = b"\x01R"

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
"""Dubbo's default for `payload`."""

PROTOCOL_VERSION = "2.0.2"


class Status(IntEnum):
    """Whether a response carries a result."""

    OK = 20
    CLIENT_TIMEOUT = 30
    SERVER_TIMEOUT = 31
    CHANNEL_INACTIVE = 35
    BAD_REQUEST = 40
    BAD_RESPONSE = 50
    SERVICE_NOT_FOUND = 60
    SERVICE_ERROR = 70
    SERVER_ERROR = 80
    CLIENT_ERROR = 90
    SERVER_THREADPOOL_EXHAUSTED = 100


class FrameError(Exception):
    """The stream is not Dubbo protocol, or a frame is too large: the connection must close."""


def frame(flags: int, status: int, request_id: int, body: bytes) -> bytes:
    return HEADER.pack(MAGIC, flags, status, request_id, len(body)) + body


def heartbeat(request_id: int) -> bytes:
    return frame(REQUEST | TWO_WAY | EVENT | HESSIAN2, 0, request_id, NULL_BODY)


def heartbeat_answer(request_id: int) -> bytes:
    return frame(EVENT | HESSIAN2, Status.OK, request_id, NULL_BODY)


def readonly_event(request_id: int) -> bytes:
    """Tells a consumer to send no more calls over this connection."""
    return frame(REQUEST | EVENT | HESSIAN2, 0, request_id, READONLY_BODY)


Frame = tuple[int, int, int, bytes]
"""Flags, status, request id and body."""


class Frames:
    """Turns received bytes into whole frames."""

    __slots__ = ("_buffer", "_max_payload_bytes", "_needed")

    def __init__(self, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self._buffer = bytearray()
        self._needed = HEADER_BYTES
        self._max_payload_bytes = max_payload_bytes

    @property
    def unfinished_bytes(self) -> int:
        """How much of an incomplete frame has arrived."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that are complete now."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
        found = []
        position, end, needed = 0, len(data), HEADER_BYTES
        while end - position >= HEADER_BYTES:
            magic, flags, status, request_id, size = HEADER.unpack_from(data, position)
            if magic != MAGIC:
                raise FrameError(f"a frame starts with 0x{magic:04x}, not 0x{MAGIC:04x}")
            if size > self._max_payload_bytes:
                raise FrameError(f"a frame of {size} bytes, the limit is {self._max_payload_bytes}")
            needed = HEADER_BYTES + size
            if end - position < needed:
                break
            start = position + HEADER_BYTES
            found.append((flags, status, request_id, data[start : start + size]))
            position += needed
            needed = HEADER_BYTES
        self._buffer = bytearray(data[position:])
        self._needed = needed
        if self._buffer and not _MAGIC_BYTES.startswith(self._buffer[:2]):
            raise FrameError("this is not the Dubbo protocol")
        return found
