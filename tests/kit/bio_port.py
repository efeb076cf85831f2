"""A port over `ssl.MemoryBIO`, and an engine that makes the moments that are rare with OpenSSL.

Not a TLS port, only its shape: it proves that `network.port.Port` fits one. The engine is an
`ssl.SSLObject`, or a `FakeEngine` whose peer says when a write has to wait for a read.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Protocol

from floodmark.network.port import Bytes, Slice
from floodmark.testing.memory_port import MemoryPort, Watch

RECORD_BYTES = 16 * 1024


class Engine(Protocol):
    def do_handshake(self) -> None: ...
    def read(self, size: int, buffer: memoryview, /) -> int: ...
    def write(self, data: Bytes, /) -> int: ...


class BioPort:
    def __init__(
        self, raw: MemoryPort, engine: Engine, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        loop = asyncio.get_running_loop()
        self._raw, self._engine = raw, engine
        self._incoming, self._outgoing = incoming, outgoing
        # What the engine has encrypted and the socket has not taken.
        self._unsent = b""
        self._is_shaken = False
        # Whether the engine cannot go on before the socket brings more.
        self._is_drained = False
        self._send_wants_read = False
        self._receiving = Watch(loop, lambda: not self._is_drained)
        self._sending = Watch(loop, lambda: not self._unsent and not self._send_wants_read)

    def receive_into(self, room: memoryview, /) -> int:
        try:
            if not self._is_shaken:
                self._engine.do_handshake()
                self._is_shaken = True
            return self._engine.read(len(room), room)
        except ssl.SSLWantReadError:
            self._is_drained = True
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            self._flush()

    def send(self, data: Bytes, /) -> int:
        self._flush()
        if self._unsent:
            raise BlockingIOError
        try:
            return self._engine.write(data[:RECORD_BYTES])
        except ssl.SSLWantReadError:
            self._send_wants_read = True
            raise BlockingIOError from None
        finally:
            self._flush()

    send_more = send

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        return 0

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        self._receiving.start(ready)
        self._watch_raw()

    def ignore_receiving(self) -> None:
        self._receiving.stop()
        self._watch_raw()

    def watch_sending(self, ready: Callable[[], None]) -> None:
        self._sending.start(ready)
        self._watch_raw()

    def ignore_sending(self) -> None:
        self._sending.stop()
        self._watch_raw()

    def close(self) -> None:
        self._receiving.stop()
        self._sending.stop()
        self._raw.close()

    def _watch_raw(self) -> None:
        receives = self._receiving.is_on and self._is_drained
        if receives or (self._sending.is_on and self._send_wants_read):
            self._raw.watch_receiving(self._feed)
        else:
            self._raw.ignore_receiving()
        if self._unsent:
            self._raw.watch_sending(self._flush)
        else:
            self._raw.ignore_sending()

    def _feed(self) -> None:
        room = bytearray(RECORD_BYTES)
        count = self._raw.receive_into(memoryview(room))
        if count:
            self._incoming.write(room[:count])
        else:
            self._incoming.write_eof()
        self._is_drained = self._send_wants_read = False
        self._look()

    def _flush(self) -> None:
        self._unsent += self._outgoing.read()
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._raw.send(self._unsent) :]
        self._look()

    def _look(self) -> None:
        self._receiving.look()
        self._sending.look()
        self._watch_raw()


HELLO, WELCOME, DATA, HOLD, RELEASE = b"H", b"W", b"D", b"!", b"."
LENGTH_BYTES = 3
_SWAP = bytes(byte ^ 0x55 for byte in range(256))


def sealed(data: bytes) -> bytes:
    """Records as either end sends them."""
    parts = [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
    return b"".join(
        DATA + len(part).to_bytes(LENGTH_BYTES - 1, "big") + part.translate(_SWAP) for part in parts
    )


def opened(records: bytes) -> bytes:
    data = b""
    while records:
        assert records[:1] == DATA
        size_bytes = int.from_bytes(records[1:LENGTH_BYTES], "big")
        data += records[LENGTH_BYTES:][:size_bytes].translate(_SWAP)
        records = records[LENGTH_BYTES + size_bytes :]
    return data


class FakeEngine:
    """Records of swapped bytes. Between HOLD and RELEASE of the peer, writing wants to read."""

    def __init__(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._records = b""
        self._open = b""
        self._is_held = False

    def do_handshake(self) -> None:
        if self._incoming.read(1) != HELLO:
            raise ssl.SSLWantReadError
        self._outgoing.write(WELCOME)

    def read(self, size: int, buffer: memoryview, /) -> int:
        while not self._open and self._next_record():
            pass
        if not self._open and self._incoming.eof:
            return 0
        if not self._open:
            raise ssl.SSLWantReadError
        part, self._open = self._open[:size], self._open[size:]
        buffer[: len(part)] = part
        return len(part)

    def write(self, data: Bytes, /) -> int:
        while self._is_held and self._next_record():
            pass
        if self._is_held:
            raise ssl.SSLWantReadError
        self._outgoing.write(sealed(bytes(data)))
        return len(data)

    def _next_record(self) -> bool:
        self._records += self._incoming.read()
        kind, rest = self._records[:1], self._records[LENGTH_BYTES:]
        if kind in (HOLD, RELEASE) and kind:
            self._is_held = kind == HOLD
            self._records = self._records[1:]
            return True
        size_bytes = int.from_bytes(self._records[1:LENGTH_BYTES], "big")
        if kind != DATA or len(rest) < size_bytes:
            return False
        self._open += rest[:size_bytes].translate(_SWAP)
        self._records = rest[size_bytes:]
        return True
