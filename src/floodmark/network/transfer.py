"""The one place where file bytes go to a socket.

An answer is bytes, or a list of parts among which are slices of log files that have not been read
yet. An `Outbox` adds Kafka's length prefix and writes all of it. A slice is read with one
positioned read just before it is written, and a large one in pieces, each when the peer has taken
what came before: whatever clients ask for and do not read stays on the disk. (`sendfile` was tried:
it pushes 64 KiB at a time, and each wakes the client anew, which took more CPU than the copy.)
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from floodmark.network.framing import LENGTH_BYTES

SMALL_BYTES = 16 * 1024
"""Below this, joining pieces into one write is cheaper than a vectored write."""

PIECE_BYTES = 1 << 20
"""So much of files is in memory at a time for one connection: what consumers ask for by default."""


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self, start: int, size: int) -> bytes:
        """A stretch of it; shorter only if the file has become shorter."""


Bytes = bytes | bytearray | memoryview
Part = Bytes | Slice
Answer = bytes | list[Part]


class ShortRead(OSError):
    """A file holds less than was announced: the answer cannot be finished."""


class Outbox:
    """The responses of one connection that are not with the transport yet.

    A client that has several requests under way gets the answers of one turn in one write: a write
    to a socket costs as much as all the rest of a small request. Above SMALL_BYTES waiting for more
    would only cost memory.
    """

    __slots__ = ("_chunks", "_has_slices", "_read_bytes", "size_bytes")

    def __init__(self) -> None:
        self._chunks: list[Part] = []
        self._has_slices = False
        # Of the slice that stands first among the chunks.
        self._read_bytes = 0
        self.size_bytes = 0

    def add(self, answer: Answer) -> int:
        """Takes in one answer, framed; returns its size without the length prefix."""
        if isinstance(answer, bytes):
            size_bytes = len(answer)
            self._chunks.append(size_bytes.to_bytes(LENGTH_BYTES, "big") + answer)
        else:
            size_bytes = sum(map(len, answer))
            chunks = [part if type(part) is bytes else self._held(part) for part in answer]
            self._chunks.append(size_bytes.to_bytes(LENGTH_BYTES, "big"))
            self._chunks += chunks
        self.size_bytes += LENGTH_BYTES + size_bytes
        return size_bytes

    def _held(self, part: Part) -> Part:
        if isinstance(part, Bytes):
            return part
        if len(part) <= SMALL_BYTES:
            return _read(part, 0, len(part))
        self._has_slices = True
        return part

    def write_to(self, transport: asyncio.WriteTransport) -> None:
        """Writes what there is; of files one piece, and `size_bytes` says what is left.

        ShortRead when a file has become shorter: the peer has a part of an answer then.
        """
        chunks = self._next_piece() if self._has_slices else cast("list[Bytes]", self._chunks)
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif self.size_bytes <= SMALL_BYTES:
            transport.write(b"".join(chunks))
        else:
            transport.writelines(chunks)
        if self._has_slices:
            self.size_bytes -= sum(map(len, chunks))
            self._has_slices = self.size_bytes > 0
        else:
            chunks.clear()
            self.size_bytes = 0

    def clear(self) -> None:
        """Whoever was to get it has left."""
        self._chunks.clear()
        self._has_slices = False
        self._read_bytes = self.size_bytes = 0

    def _next_piece(self) -> list[Bytes]:
        """All chunks up to the slice that does not fit into the piece any more."""
        piece: list[Bytes] = []
        room_bytes = PIECE_BYTES
        taken = 0
        for chunk in self._chunks:
            if isinstance(chunk, Bytes):
                piece.append(chunk)
            else:
                start = self._read_bytes
                size_bytes = min(len(chunk) - start, room_bytes)
                if size_bytes:
                    piece.append(_read(chunk, start, size_bytes))
                room_bytes -= size_bytes
                self._read_bytes = start + size_bytes
                if self._read_bytes < len(chunk):
                    break
                self._read_bytes = 0
            taken += 1
        del self._chunks[:taken]
        return piece


def _read(part: Slice, start: int, size_bytes: int) -> bytes:
    data = part.read(start, size_bytes)
    if len(data) != size_bytes:
        raise ShortRead(f"{len(part)} bytes were announced, the file has {start + len(data)}")
    return data
