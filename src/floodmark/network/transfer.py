"""Sends responses, and the file slices in them, to a port.

A response is bytes, or a list of parts, some of which are unread slices of log files. An `Outbox`
adds Kafka's length prefix and sends as much as the port accepts; the rest waits. Small slices are
read and joined with the bytes around them: the first ones of a response immediately, the others
when the port accepts them. A large slice goes from the page cache to the socket inside the kernel
(`sendfile`) if the port can do that, and is read piece by piece otherwise. So a client that asks
for much and reads nothing holds no more than READ_AHEAD_BYTES and one piece in memory.
"""

from __future__ import annotations

from floodmark.network.framing import LENGTH_BYTES
from floodmark.network.port import Bytes, Port, Slice

SMALL_BYTES = 16 * 1024
"""Below this, joining pieces is cheaper than sending each separately."""

READ_AHEAD_BYTES = 64 * 1024
"""How much of a response's small slices to read ahead: one write suffices for most responses, and a
client that does not read cannot make us hold more."""

PIECE_BYTES = 256 * 1024
"""How much to read at a time of a slice that the port cannot send by itself."""

SENT_AT_ONCE_BYTES = 2 << 20
"""After this much, others get a turn: a fast reader would otherwise get all of a large response
first. More than a fetch of one mebibyte, which needs no second turn."""


Part = Bytes | Slice
Answer = bytes | list[Part]


class ShortRead(OSError):
    """A file holds less than announced, so the response cannot be completed."""


class Outbox:
    """The responses of one connection that its port has not accepted yet.

    A client with several requests in progress gets the responses of one turn in one write, because
    a socket write costs as much as the rest of a small request. Above SMALL_BYTES, waiting for more
    would only cost memory.
    """

    __slots__ = ("_chunks", "_done_bytes", "_port", "size_bytes")

    def __init__(self, port: Port) -> None:
        self._port = port
        self._chunks: list[Part] = []
        # Sent bytes of the slice that is first among the chunks.
        self._done_bytes = 0
        self.size_bytes = 0

    def add_bytes(self, answer: bytes) -> None:
        """Adds one response, framed."""
        chunk = len(answer).to_bytes(LENGTH_BYTES, "big") + answer
        self._chunks.append(chunk)
        self.size_bytes += len(chunk)

    def add(self, answer: Answer) -> None:
        """Adds one response, framed.

        Raises OSError, adding nothing, if a small slice is unreadable.
        """
        if isinstance(answer, bytes):
            self.add_bytes(answer)
            return
        size_bytes = sum(map(len, answer))
        self._chunks += _joined(size_bytes.to_bytes(LENGTH_BYTES, "big"), answer)
        self.size_bytes += LENGTH_BYTES + size_bytes

    def send(self) -> int:
        """Sends as much as the port accepts, up to a limit per turn, and returns how much.

        `size_bytes` says what is left. Raises OSError if the peer is lost or a file is unreadable,
        and ShortRead if a file was truncated. Nothing is left then, and the peer may have received
        part of a response.
        """
        chunks = self._chunks
        sent_bytes = 0
        try:
            while chunks and sent_bytes < SENT_AT_ONCE_BYTES:
                first = chunks[0]
                if type(first) is bytes and len(chunks) == 1:
                    # The common case.
                    send = self._port.send
                    sent = send(first)
                    if sent == len(first):
                        chunks.clear()
                        self.size_bytes = 0
                        return sent_bytes + sent
                    chunks[0] = memoryview(first)[sent:]
                elif isinstance(first, Bytes) or len(first) <= SMALL_BYTES:
                    sent = self._send_small()
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
        """Drops everything, because the receiver is gone."""
        self._chunks.clear()
        self._done_bytes = self.size_bytes = 0

    def _send_small(self) -> int:
        """Sends the bytes and small slices before the next large one, as far as they are small.

        They are read into the first chunk, where the unsent rest stays.
        """
        chunks = self._chunks
        run: list[Bytes] = []
        size_bytes = 0
        for chunk in chunks:
            size_bytes += len(chunk)
            if run and size_bytes > SMALL_BYTES:
                break
            run.append(chunk if isinstance(chunk, Bytes) else _read(chunk, 0, len(chunk)))
        data = run[0] if len(run) == 1 else b"".join(run)
        chunks[: len(run)] = [data]
        send = self._port.send_more if len(chunks) > 1 else self._port.send
        sent_bytes = send(data)
        chunks[:1] = [memoryview(data)[sent_bytes:]] if sent_bytes < len(data) else []
        return sent_bytes

    def _send_slice(self, part: Slice) -> int:
        start = self._done_bytes
        left_bytes = len(part) - start
        sent_bytes = self._port.send_slice(part, start, min(left_bytes, SENT_AT_ONCE_BYTES))
        if not sent_bytes:
            sent_bytes = self._port.send(_read(part, start, min(left_bytes, PIECE_BYTES)))
        if sent_bytes < left_bytes:
            self._done_bytes = start + sent_bytes
        else:
            self._done_bytes = 0
            del self._chunks[0]
        return sent_bytes


def _joined(length: bytes, answer: list[Part]) -> list[Part]:
    """The response with its small slices read, within the read-ahead limit, and all bytes between
    other slices joined: each piece on its own would need more memory than its contents."""
    chunks: list[Part] = []
    run: list[Bytes] = [length]
    left_bytes = READ_AHEAD_BYTES
    for part in answer:
        # Most parts are bytes: checking the class is faster than `isinstance`.
        if type(part) is bytes or isinstance(part, Bytes):
            run.append(part)
            continue
        size_bytes = len(part)
        if size_bytes <= SMALL_BYTES and size_bytes <= left_bytes:
            left_bytes -= size_bytes
            run.append(_read(part, 0, size_bytes))
            continue
        part.let_go()
        chunks += [b"".join(run), part] if run else [part]
        run = []
    if run:
        chunks.append(b"".join(run))
    return chunks


def _read(part: Slice, start: int, size_bytes: int) -> bytes:
    data = part.read(start, size_bytes)
    if len(data) != size_bytes:
        raise ShortRead(f"{len(part)} bytes were announced, the file has {start + len(data)}")
    return data
