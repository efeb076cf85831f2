"""An in-memory connection: the twin of `network.plain_port.PlainPort`, with its client end.

For testing connections without sockets or sleeps. Nothing is lost or late: the port calls back in
the loop iteration after the client writes, and accepts responses until `window_bytes` of them are
unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from floodmark.network.port import Bytes, Slice

LENGTH_BYTES = 4
WINDOW_BYTES = 64 * 1024
"""Roughly the size of two socket buffers."""


class Watch:
    """Calls back once per loop iteration while `is_ready` holds, as a selector does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_ready: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_ready = is_ready
        self._is_scheduled = False
        self._ready: Callable[[], None] | None = None

    @property
    def is_on(self) -> bool:
        return self._ready is not None

    def start(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self.look()

    def stop(self) -> None:
        self._ready = None

    def look(self) -> None:
        """Checks again after a change."""
        if self._ready is not None and not self._is_scheduled and self._is_ready():
            self._is_scheduled = True
            self._loop.call_soon(self._call)

    def _call(self) -> None:
        self._is_scheduled = False
        if self._ready is not None and self._is_ready():
            self._ready()
            self.look()


class MemoryPort:
    """The broker's end. `client` is the other end."""

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        loop = asyncio.get_running_loop()
        self.receiving = Watch(loop, self._can_receive)
        self.sending = Watch(loop, self._can_send)
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.window_bytes = window_bytes
        self.is_ended = self.is_reset = self.is_closed = False
        self.client = MemoryClient(self)

    def receive_into(self, room: memoryview, /) -> int:
        self._check()
        if not self._can_receive():
            raise BlockingIOError
        count = min(len(room), len(self.incoming))
        room[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, data: Bytes, /) -> int:
        self._check()
        count = min(len(data), self.window_bytes - len(self.outgoing))
        if count <= 0:
            raise BlockingIOError
        self.outgoing += data[:count]
        self.client.changed.set()
        return count

    send_more = send

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        return 0

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        self.receiving.start(ready)

    def ignore_receiving(self) -> None:
        self.receiving.stop()

    def watch_sending(self, ready: Callable[[], None]) -> None:
        self.sending.start(ready)

    def ignore_sending(self) -> None:
        self.sending.stop()

    def close(self) -> None:
        self.is_closed = True
        self.receiving.stop()
        self.sending.stop()
        self.client.changed.set()

    def _can_receive(self) -> bool:
        return bool(self.incoming) or self.is_ended or self.is_reset

    def _can_send(self) -> bool:
        return len(self.outgoing) < self.window_bytes or self.is_reset

    def _check(self) -> None:
        if self.is_closed:
            raise OSError("the port is closed")
        if self.is_reset:
            raise ConnectionResetError


class MemoryClient:
    """The client's end of a `MemoryPort`."""

    def __init__(self, port: MemoryPort) -> None:
        self._port = port
        self.changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        self._port.incoming += data
        self._port.receiving.look()

    def request(self, *bodies: bytes) -> None:
        """Writes framed requests, all at once."""
        self.write(b"".join(len(body).to_bytes(LENGTH_BYTES, "big") + body for body in bodies))

    def end(self) -> None:
        """Closes the sending half. Responses can still be read."""
        self._port.is_ended = True
        self._port.receiving.look()

    def reset(self) -> None:
        """Resets the connection and drops all data in transit."""
        self._port.is_reset = True
        self._port.incoming.clear()
        self._port.outgoing.clear()
        self._port.receiving.look()
        self._port.sending.look()

    def take(self, size_bytes: int | None = None) -> bytes:
        """Reads available data, which frees space in the window."""
        outgoing = self._port.outgoing
        taken = bytes(outgoing[:size_bytes])
        del outgoing[:size_bytes]
        self._port.sending.look()
        return taken

    async def read(self, size_bytes: int) -> bytes:
        """Raises EOFError if the broker closes the connection before this many bytes arrive."""
        data = bytearray()
        while len(data) < size_bytes:
            part = self.take(size_bytes - len(data))
            if not part and self._port.is_closed:
                raise EOFError(f"closed after {len(data)} of {size_bytes} bytes")
            if not part:
                await self._change()
            data += part
        return bytes(data)

    async def answer(self) -> bytes:
        return await self.read(int.from_bytes(await self.read(LENGTH_BYTES), "big"))

    async def closed(self) -> bytes:
        """Waits until the broker closes the connection. Returns the unread responses."""
        while not self._port.is_closed:
            await self._change()
        return self.take()

    async def _change(self) -> None:
        self.changed.clear()
        await self.changed.wait()
