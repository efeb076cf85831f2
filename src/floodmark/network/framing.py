"""Splits received bytes into frames. PURE: no sockets, no loop.

A `FrameBuffer` is the receive buffer of one connection. `network.connection` receives directly into
it and takes frames out as views, so a produce request is never copied between the socket and the
log file.

Three rules keep it small and safe:

- It starts small and grows with the bytes that actually arrive, never with the length a peer
  claims: a false length costs nothing.
- A frame stays in place until `release()`. The connection is muted meanwhile, so at most one frame
  is out at a time.
- After a large frame it keeps the space for the next one. `shrink()` frees it once the connection
  is quiet.
"""

from __future__ import annotations

from struct import Struct

INITIAL_BYTES = 4096
"""The space of a new connection. Most requests fit, and idle connections stay cheap."""

BUSY_BYTES = 64 * 1024
"""The space once a frame outgrows the first: several pipelined batches arrive in one read."""

LENGTH_BYTES = 4
_read_length = Struct(">i").unpack_from


class FrameTooLarge(ValueError):
    """The peer announced a frame size that is negative or above `socket.request.max.bytes`."""


class FrameBuffer:
    """`view[end:]` is where to receive next; the receiver advances `end`. The connection accesses
    these directly, because every request passes here."""

    __slots__ = ("_buffer", "_start", "end", "held_end", "max_frame_bytes", "view")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._allocate(INITIAL_BYTES)
        self._start = 0
        self.end = 0
        # The end of the frame in use, or 0.
        self.held_end = 0

    @property
    def is_full(self) -> bool:
        return self.end == len(self._buffer)

    @property
    def capacity_bytes(self) -> int:
        return len(self._buffer)

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length field, or None if more bytes are needed.

        The view stays valid until `release()`, which must come before the next call.
        """
        start = self._start
        begin = start + LENGTH_BYTES
        end = self.end
        if end < begin:
            if end > start:
                self._make_room(LENGTH_BYTES)
            return None
        (length,) = _read_length(self._buffer, start)
        if not 0 <= length <= self.max_frame_bytes:
            raise FrameTooLarge(
                f"a frame of {length} bytes was announced, the limit is {self.max_frame_bytes}"
            )
        frame_end = begin + length
        if frame_end > end:
            self._make_room(LENGTH_BYTES + length)
            return None
        self.held_end = frame_end
        return self.view[begin:frame_end]

    def release(self) -> None:
        """Frees the last frame: its bytes may be overwritten.

        If nothing else has arrived, `end` is 0 again.
        """
        if self.held_end == self.end:
            self._start = self.end = 0
        else:
            self._start = self.held_end
        self.held_end = 0

    def shrink(self) -> None:
        """Frees the space of large frames while the buffer is empty."""
        if self.end == 0 and len(self._buffer) > INITIAL_BYTES:
            self._allocate(INITIAL_BYTES)

    def _make_room(self, frame_bytes: int) -> None:
        """Makes room to receive more, by moving the data to the front or by growing."""
        capacity = len(self._buffer)
        if self._start + frame_bytes <= capacity:
            return
        pending = self.end - self._start
        if frame_bytes <= capacity:
            self._buffer[:pending] = self._buffer[self._start : self.end]
        elif self.end == capacity:
            received = bytes(self.view[self._start : self.end])
            self._allocate(max(BUSY_BYTES, min(frame_bytes, 2 * capacity)))
            self._buffer[:pending] = received
        else:
            return
        self._start, self.end = 0, pending

    def _allocate(self, size_bytes: int) -> None:
        self._buffer = bytearray(size_bytes)
        self.view = memoryview(self._buffer)
