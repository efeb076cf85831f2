"""The port of a TLS listener: `ssl.MemoryBIO` over another port, which carries the records.

Created by `network.acceptor`. The handshake runs inside `receive_into`, and calls `established`
with the client's certificate once it is done. OpenSSL's state is created with the first bytes, so a
client that connects and stays silent costs only a socket.

Reads and writes are large: OpenSSL works in records of 16 KiB, but each socket read takes
READ_BYTES and each write up to SEND_BYTES.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from floodmark.network.port import Bytes, Port, Slice
from floodmark.network.principal import Principal

READ_BYTES = 128 * 1024
SEND_BYTES = 256 * 1024
"""At most this much is encrypted before the socket has accepted it."""

MAX_UNSENT_BYTES = 2 * SEND_BYTES
"""OpenSSL answers key updates by itself. A peer that sends many and reads no answers is closed."""


class Encryption(Protocol):
    """What a TLS listener gives each new connection."""

    @property
    def context(self) -> ssl.SSLContext:
        """The newest context: keys may be replaced at runtime."""

    def principal_of(self, certificate: bytes | None) -> Principal:
        """The principal for this verified certificate. Raises ConnectionError if there is none."""

    def handshake_failed(self, host: str, reason: str) -> None: ...

    @property
    def failed_handshakes(self) -> int: ...

    def days_left(self, now_ms: int) -> float:
        """Days until the certificate expires; negative once it has."""


def new_scratch() -> memoryview:
    """Holds bytes from a socket until OpenSSL has copied them, so nothing stays in it between two
    calls.

    All ports of one loop may share it. Ports of two loops must not: brokers in one process run on
    threads of their own, and would read each other's bytes.
    """
    return memoryview(bytearray(READ_BYTES))


class TlsPort:
    __slots__ = (
        "_context",
        "_engine",
        "_established",
        "_failed",
        "_incoming",
        "_is_closed",
        "_is_lost",
        "_is_shaken",
        "_loop",
        "_outgoing",
        "_raw",
        "_receive_ready",
        "_scratch",
        "_send_ready",
        "_unsent",
    )

    def __init__(
        self,
        raw: Port,
        context: ssl.SSLContext,
        loop: asyncio.AbstractEventLoop,
        scratch: memoryview,
        established: Callable[[bytes | None], None],
        failed: Callable[[str], None],
    ) -> None:
        """`established` gets the client's verified certificate, `failed` the reason for a failed
        handshake."""
        self._raw = raw
        self._loop = loop
        self._scratch = scratch
        self._established = established
        self._failed = failed
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._context = context
        self._engine: ssl.SSLObject | None = None
        self._is_shaken = self._is_lost = self._is_closed = False
        # Encrypted bytes that the socket has not accepted.
        self._unsent: Bytes = b""
        self._receive_ready: Callable[[], None] | None = None
        self._send_ready: Callable[[], None] | None = None

    def receive_into(self, room: memoryview, /) -> int:
        if self._engine is None or not (self._incoming.pending or self._engine.pending()):
            self._read_socket()
        engine = self._engine
        if engine is None:
            return 0
        try:
            if not self._is_shaken:
                self._shake_hands(engine)
            return self._decrypt(engine, room)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            self._flush()

    def send(self, data: Bytes, /) -> int:
        engine = self._engine
        if engine is None or not self._is_shaken:
            raise ConnectionError("nothing can be sent before the TLS handshake")
        self._flush()
        if self._unsent:
            raise BlockingIOError
        piece = data if len(data) <= SEND_BYTES else memoryview(data)[:SEND_BYTES]
        sent_bytes = engine.write(piece)
        self._flush()
        return sent_bytes

    send_more = send

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        return 0

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        self._receive_ready = ready
        self._raw.watch_receiving(ready)
        self._remind()

    def ignore_receiving(self) -> None:
        self._receive_ready = None
        self._raw.ignore_receiving()

    def watch_sending(self, ready: Callable[[], None]) -> None:
        self._send_ready = ready
        self._raw.watch_sending(self._socket_takes)

    def ignore_sending(self) -> None:
        self._send_ready = None
        if not self._unsent:
            self._raw.ignore_sending()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._receive_ready = self._send_ready = None
        try:
            if self._engine is not None and self._is_shaken and not self._is_lost:
                self._say_goodbye(self._engine)
        except OSError:
            pass
        finally:
            # The two refer to each other through the engine.
            self._engine = None
            self._raw.close()

    # Inside

    def _read_socket(self) -> None:
        """Raises BlockingIOError if the socket has nothing."""
        count = self._raw.receive_into(self._scratch)
        if count and self._engine is None:
            self._engine = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        if count:
            self._incoming.write(self._scratch[:count])
        else:
            self._incoming.write_eof()

    def _shake_hands(self, engine: ssl.SSLObject) -> None:
        try:
            engine.do_handshake()
            self._established(engine.getpeercert(True))
            self._is_shaken = True
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLEOFError:
            self._failed("the client left during the handshake")
            raise
        except ssl.SSLError as problem:
            self._is_lost = True
            reason = problem.reason or str(problem)
            self._failed(reason.lower().replace("_", " "))
            raise
        except ConnectionError as problem:
            self._failed(str(problem))
            raise

    def _decrypt(self, engine: ssl.SSLObject, room: memoryview) -> int:
        """Fills the buffer as far as the received data allows."""
        # Typeshed does not know that reading into a buffer returns a number.
        read = cast("Callable[[int, memoryview], int]", engine.read)
        count = read(len(room), room)
        while count < len(room):
            try:
                more = read(len(room) - count, room[count:])
            except ssl.SSLError:
                # Not enough for another record. An end or error shows again at the next read.
                break
            if not more:
                break
            count += more
        else:
            self._remind()
        return count

    def _remind(self) -> None:
        """The socket does not signal bytes that it has already handed over."""
        engine = self._engine
        if engine is not None and (self._incoming.pending or engine.pending()):
            self._loop.call_soon(self._receive_again)

    def _receive_again(self) -> None:
        engine = self._engine
        if self._receive_ready is None or engine is None:
            return
        if self._incoming.pending or engine.pending():
            self._receive_ready()

    def _flush(self) -> None:
        """Passes encrypted bytes to the socket. Raises OSError if the peer is lost."""
        if self._outgoing.pending:
            fresh = self._outgoing.read()
            self._unsent = b"".join((self._unsent, fresh)) if self._unsent else fresh
        if not self._unsent:
            return
        try:
            sent_bytes = self._raw.send(self._unsent)
        except BlockingIOError:
            sent_bytes = 0
        if sent_bytes == len(self._unsent):
            self._unsent = b""
        else:
            self._unsent = memoryview(self._unsent)[sent_bytes:]
            if len(self._unsent) > MAX_UNSENT_BYTES:
                raise ConnectionError("the client does not read what TLS has to say")
            if not self._is_closed:
                self._raw.watch_sending(self._socket_takes)

    def _socket_takes(self) -> None:
        try:
            self._flush()
        except OSError:
            self._unsent = b""
            self._is_lost = True
        if self._unsent:
            return
        if self._send_ready is not None:
            self._send_ready()
        else:
            self._raw.ignore_sending()

    def _say_goodbye(self, engine: ssl.SSLObject) -> None:
        """Tells the client that nothing was cut off."""
        with contextlib.suppress(ssl.SSLError):
            engine.unwrap()
        self._flush()
