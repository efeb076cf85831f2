"""A TCP proxy that can be cut: what a broken network between two processes looks like to them."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self


class TcpProxy:
    """Listens on a free port and passes on to `port`. While it is cut, nothing gets through, and
    nobody is told: connections stay open and silent, new ones are accepted and never answered."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._healed = threading.Event()
        self._healed.set()
        self._sockets: list[socket.socket] = []
        self._is_closed = False
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        self._healed.clear()

    def heal(self) -> None:
        """What was held back is lost: a client that has waited connects anew."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._healed.set()

    def close(self) -> None:
        self._is_closed = True
        self._listener.close()
        self.heal()

    def _start(self, target, *arguments) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._healed.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        self._start(self._copy, client, server)
        self._copy(server, client)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while select.select([source], [], [], None)[0]:
                self._healed.wait()
                data = source.recv(65536)
                if not data:
                    break
                self._healed.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
