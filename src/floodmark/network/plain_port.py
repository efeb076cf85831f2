"""The port of a PLAINTEXT listener: a plain TCP socket.

Created by `network.acceptor`. The broker's loop waits for the socket, and the kernel can send file
slices to it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from floodmark.network.port import Bytes, Slice


class PlainPort:
    __slots__ = ("_loop", "_socket", "receive_into", "send")

    def __init__(self, client: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """`client` must be non-blocking."""
        self._socket = client
        self._loop = loop
        # The socket's own methods: every request passes here, and a wrapper would add two calls.
        self.receive_into: Callable[[memoryview], int] = client.recv_into
        self.send: Callable[[Bytes], int] = client.send

    def send_more(self, data: Bytes, /) -> int:
        return self._socket.send(data, socket.MSG_MORE)

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        return part.send_to(self._socket.fileno(), start, size)

    def watch_receiving(self, ready: Callable[[], None]) -> None:
        self._loop.add_reader(self._socket.fileno(), ready)

    def ignore_receiving(self) -> None:
        self._loop.remove_reader(self._socket.fileno())

    def watch_sending(self, ready: Callable[[], None]) -> None:
        self._loop.add_writer(self._socket.fileno(), ready)

    def ignore_sending(self) -> None:
        self._loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        # Stop watching first: the descriptor may belong to another socket right after.
        self.ignore_receiving()
        self.ignore_sending()
        self._socket.close()
