"""The one place where file bytes go to a socket.

A response is a list of parts: bytes, memoryviews, and slices of log files that have not been read
yet. `write_response` adds Kafka's length prefix and writes all of it. A slice is read with one
positioned read just before it is written, so file data exists in memory only between page cache and
socket (uvloop has no sendfile).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

SMALL_BYTES = 16 * 1024
"""Below this, joining parts into one write is cheaper than a write for each."""


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self) -> bytes: ...


Part = bytes | bytearray | memoryview | Slice


class ShortRead(OSError):
    """A file holds less than was announced: nothing has been sent yet, and nothing may be."""


def write_response(transport: asyncio.WriteTransport, parts: Sequence[Part]) -> int:
    """Writes one framed response and returns its size without the length prefix."""
    size_bytes = sum(map(len, parts))
    chunks: list[bytes | bytearray | memoryview] = [size_bytes.to_bytes(4, "big")]
    for part in parts:
        chunks.append(part if isinstance(part, (bytes, bytearray, memoryview)) else _read(part))
    if size_bytes <= SMALL_BYTES:
        transport.write(b"".join(chunks))
    else:
        transport.writelines(chunks)
    return size_bytes


def _read(part: Slice) -> bytes:
    data = part.read()
    if len(data) != len(part):
        raise ShortRead(f"{len(part)} bytes were announced, the file has {len(data)}")
    return data
