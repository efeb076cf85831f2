"""PORT: a client's byte stream as a connection sees it, and the file slices sent into it.

Implementations: `network.plain_port` (a TCP socket), `network.tls_port` (TLS) and
`testing.memory_port` (in memory, for tests). The interface is designed to fit `ssl.MemoryBIO`:

- Watching concerns the stream, not a socket. While receiving is watched, the port calls back as
  long as `receive_into` would return something. That includes bytes that it has decrypted but not
  handed out, even if the socket has nothing to read.
- A port may need to read in order to send, or write in order to receive (a handshake, a key
  update). It then raises BlockingIOError and watches the socket for what it needs. The connection
  only knows that it must wait.
- `send_slice` may return 0. The caller then reads the slice and sends the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class Slice(Protocol):
    """A part of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self, start: int, size: int) -> bytes:
        """Returns a range of it. Shorter only if the file has been truncated."""

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        """Lets the kernel send as much of a range as the socket accepts. Returns how much.

        Raises BlockingIOError if the socket accepts nothing. Returns 0 if the kernel cannot send
        it; reading it will show why.
        """

    def let_go(self) -> None:
        """Frees what is cached of it: from now on it is read from the file."""


class Port(Protocol):
    """All calls return immediately. OSError means that the peer is lost or encryption failed.

    Callbacks come from the loop, never from inside a call. None come after `close`.
    """

    def receive_into(self, room: memoryview, /) -> int:
        """Returns how many bytes were received; 0 if the peer has closed its end.

        `room` must not be empty. Raises BlockingIOError if nothing is available.
        """

    def send(self, data: Bytes, /) -> int:
        """Returns how many bytes were accepted. Raises BlockingIOError if none are."""

    def send_more(self, data: Bytes, /) -> int:
        """Like `send`, if more bytes follow immediately: the port may hold back a short packet for
        them."""

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        """Sends a range of a file without reading it, if the port can. Otherwise returns 0."""

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever `receive_into` would not block, until stopped.

        Raises OSError if the system cannot watch another socket.
        """

    def ignore_receiving(self) -> None: ...

    def watch_sending(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever `send` would accept something, until stopped."""

    def ignore_sending(self) -> None: ...

    def close(self) -> None: ...
