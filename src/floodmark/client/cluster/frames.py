"""Splits socket bytes into response frames without copying large ones twice.

The asyncio protocol of a client connection. `connection.py` owns it and gets frames by callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import cast

_SIZE = Struct(">i")
SCRATCH_BYTES = 64 * 1024


class FrameTooLarge(ValueError):
    """The peer announces a larger frame than any of our brokers would send."""


class FrameReceiver(asyncio.BufferedProtocol):
    """Reads small frames through a scratch buffer, and large ones straight into their own."""

    def __init__(
        self,
        max_frame_bytes: int,
        on_frame: Callable[[memoryview], None],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._scratch_filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = asyncio.Event()

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise ConnectionError("the connection was not made")
        return self._transport

    async def writable(self) -> None:
        """Waits while the peer reads more slowly than we write."""
        await self._writable.wait()

    async def ended(self) -> None:
        """Waits until the transport has released its socket."""
        await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave like asyncio's but do not inherit from them.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._ended.set()
        self._on_lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return self._scratch_view[self._scratch_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._large_filled += nbytes
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._on_frame(memoryview(frame))
            return
        self._scratch_filled += nbytes
        try:
            self._take_frames()
        except FrameTooLarge as error:
            self.transport.abort()
            self._on_lost(error)

    def _take_frames(self) -> None:
        """Delivers every whole frame in the scratch buffer, then keeps or moves the rest."""
        position = 0
        filled = self._scratch_filled
        while filled - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._scratch, position)
            if not 0 <= size <= self._max_frame_bytes:
                raise FrameTooLarge(
                    f"the peer announced {size} bytes, the limit is {self._max_frame_bytes}"
                )
            start = position + _SIZE.size
            if filled - start < size:
                if size + _SIZE.size > SCRATCH_BYTES:
                    self._begin_large(size, self._scratch_view[start:filled])
                    position = filled
                break
            position = start + size
            self._on_frame(memoryview(bytes(self._scratch_view[start:position])))
        rest = filled - position
        if rest and position:
            self._scratch[:rest] = self._scratch[position:filled]
        self._scratch_filled = rest

    def _begin_large(self, size: int, head: memoryview) -> None:
        self._large = bytearray(size)
        self._large[: len(head)] = head
        self._large_filled = len(head)
