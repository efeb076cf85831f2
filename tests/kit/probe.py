"""Asks a port whether a Kafka broker answers there, with one hand-written Metadata request.

Independent of every client library, so it can time a start to the millisecond.
"""

import socket
import struct

_METADATA = 3
_VERSION = 1
_NO_TOPICS = 0


def broker_answers(port: int, host: str = "127.0.0.1", timeout_s: float = 2.0) -> bool:
    """True when the broker at `port` knows at least one broker of its cluster: itself."""
    body = struct.pack(">hhihi", _METADATA, _VERSION, 1, -1, _NO_TOPICS)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = _read_frame(connection)
    except OSError:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", answer)
    return bool(correlation_id == 1 and brokers > 0)


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
