"""Tells connections when their sockets can be read or written, and has them answered in turns.

The broker's loop waits for the sockets. It knows of each by itself; here those that it serves in
one turn are answered together when all of them have been worked on: a write to a socket wakes
whoever waits at the other end, and may lose us the core to it in the middle of the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from floodmark.occurrences import Occurrences

logger = logging.getLogger(__name__)

ANSWERED_AT_ONCE = 32
"""So many connections are answered together at most: nobody waits for many others' requests."""


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

    def abort(self, reason: str) -> None:
        """It cannot go on."""


class Poller:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Who has answers to send when the turn ends.
        self.answered: list[Pollable] = []
        self._answered_last: Pollable | None = None
        self._is_end_set = False
        self._going_on: list[Pollable] = []
        self._failures = Occurrences()

    # What is waited for. `number` is that of a socket.

    def watch_reading(self, number: int, connection: Pollable) -> None:
        """OSError when the system has no room for another."""
        self._loop.add_reader(number, self._receive, connection)

    def ignore_reading(self, number: int) -> None:
        self._loop.remove_reader(number)

    def watch_writing(self, number: int, connection: Pollable) -> None:
        self._loop.add_writer(number, self._send_rest, connection)

    def ignore_writing(self, number: int) -> None:
        self._loop.remove_writer(number)

    def go_on_soon(self, connection: Pollable) -> None:
        """Let it go on when the others had their turn, whether or not something comes for it."""
        if not self._going_on:
            self._loop.call_soon(self._go_on)
        self._going_on.append(connection)

    def forget(self, number: int, connection: Pollable) -> None:
        """Before the socket is closed: its number may be somebody else's the next moment."""
        self._loop.remove_reader(number)
        self._loop.remove_writer(number)
        if connection is self._answered_last:
            self._answered_last = None

    # What the loop calls

    def _receive(self, connection: Pollable) -> None:
        try:
            connection.receive()
        except Exception as problem:  # noqa: BLE001 - the supervisor of connections
            self._fail(connection, problem)
        if self.answered:
            self._answer_soon()

    def _send_rest(self, connection: Pollable) -> None:
        self._supervise(connection, connection.send_rest)
        if self.answered:
            self._answer_soon()

    def _go_on(self) -> None:
        going_on, self._going_on = self._going_on, []
        for connection in going_on:
            self._supervise(connection, connection.go_on)
        self._answer()

    def _answer_soon(self) -> None:
        """At the end of this turn; who is served alone need not wait for it."""
        is_alone = not self._is_end_set and self.answered[0] is self._answered_last
        if is_alone or len(self.answered) >= ANSWERED_AT_ONCE:
            self._answer()
        elif not self._is_end_set:
            self._is_end_set = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_end_set = False
        self._answer()

    def _answer(self) -> None:
        answered, self.answered = self.answered, []
        for connection in answered:
            self._answered_last = connection
            try:
                connection.send()
            except Exception as problem:  # noqa: BLE001 - the supervisor of connections
                self._fail(connection, problem)

    def _supervise(self, connection: Pollable, step: Callable[[], None]) -> None:
        """As `_receive` and `_answer` do by themselves: every request passes there."""
        try:
            step()
        except Exception as problem:  # noqa: BLE001 - the supervisor of connections
            self._fail(connection, problem)

    def _fail(self, connection: Pollable, problem: Exception) -> None:
        """A defect of ours must cost one connection, never the others, and must be loud."""
        times = self._failures.worth_telling(repr(problem))
        if times:
            logger.error(
                "a connection failed inside the broker (%d times by now)", times, exc_info=problem
            )
        connection.abort("internal error")
