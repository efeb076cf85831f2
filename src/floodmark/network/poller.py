"""Waits for all connections of the server at once, and gives each its turn.

One epoll for all of them, which the broker's loop watches as it would watch a single socket. The
transports of asyncio and uvloop call back twice for each read and know nothing of the others; here
one turn reads and works on what has come on all connections, then sends the answers together: a
write to a socket wakes whoever waits at the other end, and may lose us the core to it in the middle
of the turn.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Callable
from typing import Protocol

from floodmark.clock import Clock
from floodmark.occurrences import Occurrences

logger = logging.getLogger(__name__)

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT

CONNECTIONS_OF_A_TURN = 32
"""So many are served and then answered together: nobody waits for many others' requests."""


class Pollable(Protocol):
    """What the poller needs of a connection."""

    def receive(self) -> None:
        """The peer has sent something, or has closed its end."""

    def go_on(self) -> None:
        """Work on what was received before."""

    def send(self) -> None:
        """Send what there is, as far as the peer takes it."""

    def send_rest(self) -> None:
        """The peer takes again what it did not take before."""

    def close(self) -> None:
        """The connection is broken."""

    def abort(self, reason: str) -> None:
        """It cannot go on."""


class Poller:
    def __init__(self, clock: Clock, turn_taken: Callable[[float], None]) -> None:
        """`turn_taken` is told how many milliseconds each turn took."""
        self._clock = clock
        self._turn_taken = turn_taken
        self._epoll = select.epoll()
        self._connections: dict[int, Pollable] = {}
        self._going_on: list[Pollable] = []
        # Who has answers to send when the turn ends.
        self.answered: list[Pollable] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failures = Occurrences()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self.take_turn)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._loop = None
        self._epoll.close()

    def add(self, number: int, connection: Pollable) -> None:
        """`number` is that of its socket. OSError when the system has no room for another."""
        self._epoll.register(number, READABLE)
        self._connections[number] = connection

    def watch(self, number: int, events: int) -> None:
        """Look for other events than before: READABLE, WRITABLE, both or none. A connection that
        breaks is noticed in any case, one that the peer closes in order only where it is read."""
        self._epoll.modify(number, events)

    def remove(self, number: int) -> None:
        """Before the socket is closed: its number may be somebody else's the next moment."""
        del self._connections[number]
        self._epoll.unregister(number)

    def go_on_soon(self, connection: Pollable) -> None:
        """Let it go on when it is its turn again, whether or not something comes for it."""
        if not self._going_on and self._loop is not None:
            self._loop.call_soon(self._take_up)
        self._going_on.append(connection)

    def _take_up(self) -> None:
        """A turn, unless somebody else's was one meanwhile."""
        if self._going_on and self._loop is not None:
            self.take_turn()

    def take_turn(self) -> None:
        begin_ms = self._clock.monotonic_ms()
        going_on, self._going_on = self._going_on, []
        for connection in going_on:
            try:
                connection.go_on()
            except Exception as problem:  # noqa: BLE001 - the supervisor of connections
                self._fail(connection, problem)
        connections = self._connections
        for number, events in self._epoll.poll(0, CONNECTIONS_OF_A_TURN):
            polled = connections.get(number)
            if polled is None:
                # Closed by somebody who was served before it in this turn.
                continue
            try:
                if events == READABLE:
                    polled.receive()
                else:
                    _serve(polled, events)
            except Exception as problem:  # noqa: BLE001 - the supervisor of connections
                self._fail(polled, problem)
        answered, self.answered = self.answered, []
        for connection in answered:
            try:
                connection.send()
            except Exception as problem:  # noqa: BLE001 - the supervisor of connections
                self._fail(connection, problem)
        self._turn_taken(self._clock.monotonic_ms() - begin_ms)

    def _fail(self, connection: Pollable, problem: Exception) -> None:
        """A defect of ours must cost one connection, never the others, and must be loud."""
        times = self._failures.worth_telling(repr(problem))
        if times:
            logger.error(
                "a connection failed inside the broker (%d times by now)", times, exc_info=problem
            )
        connection.abort("internal error")


def _serve(connection: Pollable, events: int) -> None:
    if events & WRITABLE:
        connection.send_rest()
    if events & READABLE:
        connection.receive()
    elif not events & WRITABLE:
        connection.close()
