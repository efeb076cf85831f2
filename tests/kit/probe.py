"""Asks a port whether a Kafka broker answers there and what it offers, with requests by hand.

Independent of every client library, so it can time a start to the millisecond.
"""

import socket
import struct

_METADATA = 3
_VERSION = 1
_NO_TOPICS = 0
_API_VERSIONS = 18


def broker_answers(port: int, host: str = "127.0.0.1", timeout_s: float = 2.0) -> bool:
    """True when the broker at `port` knows at least one broker of its cluster: itself."""
    body = struct.pack(">hhihi", _METADATA, _VERSION, 1, -1, _NO_TOPICS)
    try:
        answer = _ask(host, port, body, timeout_s)
    except OSError:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", answer)
    return bool(correlation_id == 1 and brokers > 0)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """For a listener that asks for a password first."""
    try:
        socket.create_connection((host, port), 2.0).close()
    except OSError:
        return False
    return True


def advertises(port: int, api_key: int, host: str = "127.0.0.1") -> bool:
    """Whether ApiVersions names the API: tests of what is still to be built skip by it."""
    answer = _ask(host, port, struct.pack(">hhih", _API_VERSIONS, 0, 1, -1), 10.0)
    (count,) = struct.unpack_from(">i", answer, 6)
    entries = struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])
    return any(advertised == api_key for advertised, _, _ in entries)


def _ask(host: str, port: int, body: bytes, timeout_s: float) -> bytes:
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        return _read_frame(connection)


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("closed in the middle of a frame")
        parts += part
    return bytes(parts)
