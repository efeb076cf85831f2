"""The one place where file bytes go to a socket.

A response is a list of parts: bytes, memoryviews, and slices of log files that have not been read
yet. `write_response` adds Kafka's length prefix and writes all of it. A slice is read with one
positioned read just before it is written, so file data exists in memory only between page cache and
socket (uvloop has no sendfile).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

SMALL_BYTES = 16 * 1024
"""Below this, joining parts into one write is cheaper than a write for each."""


@runtime_checkable
class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    @property
    def size_bytes(self) -> int: ...
    def read(self) -> bytes: ...


Part = bytes | bytearray | memoryview | Slice


def write_response(transport: asyncio.WriteTransport, parts: Sequence[Part]) -> int:
    """Writes one framed response and returns its size without the length prefix."""
    chunks = [
        part if isinstance(part, (bytes, bytearray, memoryview)) else part.read() for part in parts
    ]
    size_bytes = sum(map(len, chunks))
    prefix = size_bytes.to_bytes(4, "big")
    if size_bytes <= SMALL_BYTES:
        transport.write(prefix + b"".join(chunks))
        return size_bytes
    transport.writelines([prefix, *chunks])
    return size_bytes
