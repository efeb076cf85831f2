"""The one place where file bytes go to a socket.

An answer is bytes, or a list of parts among which are slices of log files that have not been read
yet. An `Outbox` adds Kafka's length prefix and writes all of it. A slice is read with one
positioned read just before it is written, so file data exists in memory only between page cache and
socket (uvloop has no sendfile).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from floodmark.network.framing import LENGTH_BYTES

SMALL_BYTES = 16 * 1024
"""Below this, joining pieces into one write is cheaper than a vectored write."""


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self) -> bytes: ...


Bytes = bytes | bytearray | memoryview
Part = Bytes | Slice
Answer = bytes | list[Part]


class ShortRead(OSError):
    """A file holds less than was announced: nothing has been sent yet, and nothing may be."""


class Outbox:
    """The responses of one connection that are not with the transport yet.

    A client that has several requests under way gets the answers of one turn in one write: a write
    to a socket costs as much as all the rest of a small request. Above SMALL_BYTES waiting for more
    would only cost memory.
    """

    __slots__ = ("_chunks", "size_bytes")

    def __init__(self) -> None:
        self._chunks: list[Bytes] = []
        self.size_bytes = 0

    def add(self, answer: Answer) -> int:
        """Takes in one answer, framed; returns its size without the length prefix."""
        if isinstance(answer, bytes):
            size_bytes = len(answer)
            self._chunks.append(size_bytes.to_bytes(LENGTH_BYTES, "big") + answer)
        else:
            size_bytes = sum(map(len, answer))
            chunks = [part if type(part) is bytes else _bytes_of(part) for part in answer]
            self._chunks.append(size_bytes.to_bytes(LENGTH_BYTES, "big"))
            self._chunks += chunks
        self.size_bytes += LENGTH_BYTES + size_bytes
        return size_bytes

    def write_to(self, transport: asyncio.WriteTransport) -> None:
        chunks = self._chunks
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif self.size_bytes <= SMALL_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)
        chunks.clear()
        self.size_bytes = 0


def _bytes_of(part: Part) -> Bytes:
    if isinstance(part, Bytes):
        return part
    data = part.read()
    if len(data) != len(part):
        raise ShortRead(f"{len(part)} bytes were announced, the file has {len(data)}")
    return data
