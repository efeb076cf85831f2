"""PORT: one client's byte stream as a connection sees it, and the pieces of files that go into it.

Implementations: `network.plain_port` (a TCP socket), and `testing.memory_port` (no socket at all,
for tests). A TLS port has the same shape, which is chosen to fit `ssl.MemoryBIO`:

- Watching is about the stream and not about a socket. While receiving is watched, the port calls
  back as long as `receive_into` would return something, which includes bytes that it has decrypted
  but not handed out while the socket has nothing to read.
- A port may have to read in order to send, or to write in order to receive (a handshake, a key
  update). It then raises BlockingIOError and watches the socket for what it needs; the connection
  only knows that it has to wait.
- `send_slice` may return 0: then the caller reads the slice and sends the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class Slice(Protocol):
    """A piece of a file that is read when it is sent."""

    def __len__(self) -> int: ...
    def read(self, start: int, size: int) -> bytes:
        """Returns a stretch of it; shorter only if the file has become shorter."""

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        """Lets the kernel send a stretch of it, as far as the socket takes it now, and returns how
        much that was. BlockingIOError when the socket takes nothing; 0 when the kernel cannot send
        it, and reading will show why."""

    def let_go(self) -> None:
        """Frees what is kept of it in memory: from now on it is read from the file."""


class Port(Protocol):
    """All calls return at once. OSError means that the peer is lost, or that encryption failed.

    Callbacks come from the loop, never from inside a call. None come after `close`.
    """

    def receive_into(self, room: memoryview, /) -> int:
        """Returns how many bytes were received; 0 when the peer has closed its end. `room` must not
        be empty. BlockingIOError when nothing is there now."""

    def send(self, data: Bytes, /) -> int:
        """Returns how many bytes were taken. BlockingIOError when none are taken now."""

    def send_more(self, data: Bytes, /) -> int:
        """Like `send`, when the next bytes follow at once: the port may keep a short packet back
        for them."""

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        """Sends a stretch of a file without reading it, if the port can; otherwise returns 0."""

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever `receive_into` would not block, until told to stop. OSError when
        the system cannot watch another socket."""

    def ignore_receiving(self) -> None: ...

    def watch_sending(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever `send` would take something, until told to stop."""

    def ignore_sending(self) -> None: ...

    def close(self) -> None: ...
