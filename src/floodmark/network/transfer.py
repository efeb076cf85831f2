"""The one place where file bytes go to a socket.

An answer is bytes, or a list of parts among which are slices of log files that have not been read
yet. An `Outbox` adds Kafka's length prefix and sends all of it, as far as the socket takes it; the
rest stays until it takes more. Small slices are read and joined with what is around them. A large
one goes from the page cache to the socket inside the kernel (`sendfile`), so that of what clients
ask for and do not read only small slices are in memory.
"""

from __future__ import annotations

import socket
from typing import Protocol, cast

from floodmark.network.framing import LENGTH_BYTES

SMALL_BYTES = 16 * 1024
"""Below this, joining pieces is cheaper than sending each by itself."""

PIECE_BYTES = 256 * 1024
"""So much is read at a time of a slice that the kernel cannot send."""

SENT_AT_ONCE_BYTES = 2 << 20
"""After so much it is the others' turn: a reader as fast as we are would take all of a large answer
before anybody else is served. More than a fetch of a mebibyte, which needs no second turn."""


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self, start: int, size: int) -> bytes:
        """A stretch of it; shorter only if the file has become shorter."""

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        """Let the kernel send a stretch of it, as far as the socket takes it now; says how far.
        BlockingIOError when it takes nothing; 0 when this is not possible, and reading will tell
        why."""


Bytes = bytes | bytearray | memoryview
Part = Bytes | Slice
Answer = bytes | list[Part]


class ShortRead(OSError):
    """A file holds less than was announced: the answer cannot be finished."""


class Outbox:
    """The responses of one connection that its socket has not taken yet.

    A client that has several requests under way gets the answers of one turn in one write: a write
    to a socket costs as much as all the rest of a small request. Above SMALL_BYTES waiting for more
    would only cost memory.
    """

    __slots__ = ("_chunks", "_done_bytes", "_socket", "size_bytes")

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self._chunks: list[Part] = []
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
        parts = [part if type(part) is bytes else _in_memory_if_small(part) for part in answer]
        size_bytes = sum(map(len, parts))
        length = size_bytes.to_bytes(LENGTH_BYTES, "big")
        if size_bytes <= SMALL_BYTES:
            # No slice is left in it: those are larger.
            self._chunks.append(b"".join([length, *cast("list[Bytes]", parts)]))
        else:
            self._chunks += [length, *parts]
        self.size_bytes += LENGTH_BYTES + size_bytes

    def send(self) -> int:
        """Sends as much as the socket takes, within what is sent at once, and returns how much that
        was; `size_bytes` says what is left.

        OSError when the peer is lost, or when a file cannot be read: ShortRead if it has become
        shorter. Nothing is left then, and the peer may have a part of an answer.
        """
        chunks = self._chunks
        sent_bytes = 0
        try:
            while chunks and sent_bytes < SENT_AT_ONCE_BYTES:
                first = chunks[0]
                if type(first) is bytes and len(chunks) == 1:
                    # What most turns have to send.
                    sent = self._socket.send(first)
                    if sent == len(first):
                        chunks.clear()
                    else:
                        chunks[0] = memoryview(first)[sent:]
                elif isinstance(first, Bytes):
                    sent = self._send_bytes()
                else:
                    sent = self._send_slice(first)
                sent_bytes += sent
        except BlockingIOError:
            pass
        except BaseException:
            self.clear()
            raise
        self.size_bytes -= sent_bytes
        return sent_bytes

    def clear(self) -> None:
        """Whoever was to get it has left."""
        self._chunks.clear()
        self._done_bytes = self.size_bytes = 0

    def _send_bytes(self) -> int:
        """The bytes in front of the next slice, or as much of them as is small."""
        chunks = self._chunks
        run: list[Bytes] = []
        size_bytes = 0
        for chunk in chunks:
            size_bytes += len(chunk)
            if not isinstance(chunk, Bytes) or (run and size_bytes > SMALL_BYTES):
                break
            run.append(chunk)
        data = run[0] if len(run) == 1 else b"".join(run)
        sent_bytes = self._socket.send(data, socket.MSG_MORE if len(run) < len(chunks) else 0)
        chunks[: len(run)] = [memoryview(data)[sent_bytes:]] if sent_bytes < len(data) else []
        return sent_bytes

    def _send_slice(self, part: Slice) -> int:
        start = self._done_bytes
        left_bytes = len(part) - start
        sent_bytes = part.send_to(self._socket.fileno(), start, min(left_bytes, SENT_AT_ONCE_BYTES))
        if not sent_bytes:
            sent_bytes = self._socket.send(_read(part, start, min(left_bytes, PIECE_BYTES)))
        if sent_bytes < left_bytes:
            self._done_bytes = start + sent_bytes
        else:
            self._done_bytes = 0
            del self._chunks[0]
        return sent_bytes


def _in_memory_if_small(part: Part) -> Part:
    if isinstance(part, Bytes) or len(part) > SMALL_BYTES:
        return part
    return _read(part, 0, len(part))


def _read(part: Slice, start: int, size_bytes: int) -> bytes:
    data = part.read(start, size_bytes)
    if len(data) != size_bytes:
        raise ShortRead(f"{len(part)} bytes were announced, the file has {start + len(data)}")
    return data
