"""The one place where file bytes go to a socket.

An answer is bytes, or a list of parts among which are slices of log files that have not been read
yet. An `Outbox` adds Kafka's length prefix and writes all of it: past the transport, which costs
less, as long as the socket takes all and the transport has nothing to write. Small slices are read
and joined with the rest. A large one goes from the page cache to the socket inside the kernel
(`sendfile`, which uvloop does not offer), as far as the socket has room; then one piece of it is
read and left to the transport, and the rest comes when the peer has taken that. So of what clients
ask for and do not read a mebibyte is in memory, and small slices.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Protocol, cast

from floodmark.network.framing import LENGTH_BYTES

SMALL_BYTES = 16 * 1024
"""Below this, joining pieces into one write is cheaper than a vectored write."""

PIECE_BYTES = 1 << 20
"""So much of large slices is in memory at a time for one connection."""

# Known to Linux only; elsewhere the beginning of an answer is a packet of its own.
_MORE: int = getattr(socket, "MSG_MORE", 0)


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self, start: int, size: int) -> bytes:
        """A stretch of it; shorter only if the file has become shorter."""

    def send_to(self, socket_number: int, start: int) -> int:
        """Let the kernel send it from there on, as far as the socket takes it now; says how far."""


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

    __slots__ = ("_chunks", "_done_bytes", "_has_slices", "_socket", "size_bytes")

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self._chunks: list[Part] = []
        self._has_slices = False
        # Of the slice that stands first among the chunks.
        self._done_bytes = 0
        self.size_bytes = 0

    def add(self, answer: Answer) -> None:
        """Takes in one answer, framed. OSError when a small slice cannot be read: then nothing."""
        if isinstance(answer, bytes):
            chunk = len(answer).to_bytes(LENGTH_BYTES, "big") + answer
            self._chunks.append(chunk)
            self.size_bytes += len(chunk)
            return
        parts = [part if type(part) is bytes else self._held(part) for part in answer]
        size_bytes = sum(map(len, parts))
        length = size_bytes.to_bytes(LENGTH_BYTES, "big")
        if size_bytes <= SMALL_BYTES:
            # No slice is left in it: those are larger.
            self._chunks.append(b"".join([length, *cast("list[Bytes]", parts)]))
        else:
            self._chunks += [length, *parts]
        self.size_bytes += LENGTH_BYTES + size_bytes

    def _held(self, part: Part) -> Part:
        if isinstance(part, Bytes):
            return part
        size_bytes = len(part)
        if size_bytes <= SMALL_BYTES:
            return _read(part, 0, size_bytes)
        self._has_slices = True
        return part

    def write_to(self, transport: asyncio.WriteTransport) -> int:
        """Writes what there is; of files what the socket takes and one piece more, and `size_bytes`
        says what is left. Returns how much was written.

        ShortRead when a file has become shorter: the peer has a part of an answer then.
        """
        if self._has_slices:
            return self._write_slices(transport)
        size_bytes, self.size_bytes = self.size_bytes, 0
        # Bytes, whichever way they come: a part that is none is a slice.
        chunks: list[Any] = self._chunks
        if len(chunks) > 1:
            self._chunks = []
            self._write(transport, chunks, size_bytes)
        elif transport.get_write_buffer_size():
            transport.write(chunks.pop())
        else:
            data = chunks.pop()
            # As `_send_now`, without the calls: one small answer is what most turns have to send.
            try:
                sent_bytes = self._socket.send(data)
            except OSError:
                sent_bytes = 0
            if sent_bytes != size_bytes:
                transport.write(memoryview(data)[sent_bytes:])
        return size_bytes

    def _write_slices(self, transport: asyncio.WriteTransport) -> int:
        size_bytes = self.size_bytes
        chunks = self._send_slices(transport)
        self.size_bytes = sum(map(len, self._chunks)) - self._done_bytes
        self._has_slices = self.size_bytes > 0
        if chunks:
            self._write(transport, chunks, sum(map(len, chunks)))
        return size_bytes - self.size_bytes

    def _write(
        self, transport: asyncio.WriteTransport, chunks: list[Bytes], size_bytes: int
    ) -> None:
        if size_bytes > SMALL_BYTES:
            transport.writelines(chunks)
            return
        rest: Bytes = b"".join(chunks)
        if not transport.get_write_buffer_size():
            rest = self._send_now(rest)
        if rest:
            transport.write(rest)

    def clear(self) -> None:
        """Whoever was to get it has left."""
        self._chunks.clear()
        self._has_slices = False
        self._done_bytes = self.size_bytes = 0

    def _send_slices(self, transport: asyncio.WriteTransport) -> list[Bytes]:
        """Sends what can go past the transport, which has to be empty for that; returns what the
        transport is to write behind it: all chunks up to the slice that is not done yet."""
        piece: list[Bytes] = []
        room_bytes = PIECE_BYTES
        taken = 0
        for chunk in self._chunks:
            if isinstance(chunk, Bytes):
                piece.append(chunk)
            else:
                if not transport.get_write_buffer_size():
                    rest = self._send_now(b"".join(piece), _MORE) if piece else b""
                    piece = [rest] if rest else []
                    if not rest:
                        self._done_bytes += chunk.send_to(self._socket.fileno(), self._done_bytes)
                size_bytes = min(len(chunk) - self._done_bytes, room_bytes)
                if size_bytes:
                    piece.append(_read(chunk, self._done_bytes, size_bytes))
                room_bytes -= size_bytes
                self._done_bytes += size_bytes
                if self._done_bytes < len(chunk):
                    break
                self._done_bytes = 0
            taken += 1
        del self._chunks[:taken]
        return piece

    def _send_now(self, data: Bytes, flags: int = 0) -> Bytes:
        """What the socket does not take at once."""
        try:
            sent_bytes = self._socket.send(data, flags)
        except OSError:
            # It is full; or lost, which the transport finds out with what is left to it.
            return data
        return b"" if sent_bytes == len(data) else memoryview(data)[sent_bytes:]


def _read(part: Slice, start: int, size_bytes: int) -> bytes:
    data = part.read(start, size_bytes)
    if len(data) != size_bytes:
        raise ShortRead(f"{len(part)} bytes were announced, the file has {start + len(data)}")
    return data
