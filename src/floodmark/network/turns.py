"""Serves connections in turns, and sends the responses of one turn together at its end.

A socket write wakes the client, which may then take the core from us in mid-turn. So all
connections served in one loop iteration are answered once all of them have been processed. Ports
call `receive` and `send_rest`; connections call the rest. This module also supervises connections:
a bug in one closes only that one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from floodmark.occurrences import Occurrences, repeated

logger = logging.getLogger(__name__)

ANSWERED_AT_ONCE = 32
"""The most connections answered together, so that none waits for many others."""


class Served(Protocol):
    """What a turn needs from a connection."""

    def receive(self) -> None:
        """The peer has sent something, or has closed its end."""

    def go_on(self) -> None:
        """Continues with data received before."""

    def send(self) -> None:
        """Sends waiting responses, as far as the peer accepts them."""

    def send_rest(self) -> None:
        """The peer accepts responses again."""

    def abort(self, reason: str) -> None:
        """The connection failed and must close."""


class Turns:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Connections with responses to send at the end of the turn.
        self.answered: list[Served] = []
        self._answered_last: Served | None = None
        self._is_end_set = False
        self._going_on: list[Served] = []
        self._failures = Occurrences()

    # Called by ports

    def receive(self, connection: Served) -> None:
        try:
            connection.receive()
        except Exception as problem:  # noqa: BLE001 - the supervisor of connections
            self._fail(connection, problem)
        if self.answered:
            self._answer_soon()

    def send_rest(self, connection: Served) -> None:
        self._supervise(connection, connection.send_rest)
        if self.answered:
            self._answer_soon()

    # Called by connections

    def go_on_soon(self, connection: Served) -> None:
        """Lets it continue after the others had their turn, even if nothing more arrives."""
        if not self._going_on:
            self._loop.call_soon(self._go_on)
        self._going_on.append(connection)

    def forget(self, connection: Served) -> None:
        if connection is self._answered_last:
            self._answered_last = None

    # Called by the loop

    def _go_on(self) -> None:
        going_on, self._going_on = self._going_on, []
        for connection in going_on:
            self._supervise(connection, connection.go_on)
        self._answer()

    def _end_turn(self) -> None:
        self._is_end_set = False
        self._answer()

    def _answer_soon(self) -> None:
        """Responds at the end of this turn, or now if only one connection is being served."""
        if self._is_end_set:
            if len(self.answered) >= ANSWERED_AT_ONCE:
                self._answer()
        elif self.answered[0] is self._answered_last:
            self._answer()
        else:
            self._is_end_set = True
            self._loop.call_soon(self._end_turn)

    def _answer(self) -> None:
        answered, self.answered = self.answered, []
        for connection in answered:
            self._answered_last = connection
            try:
                connection.send()
            except Exception as problem:  # noqa: BLE001 - the supervisor of connections
                self._fail(connection, problem)

    def _supervise(self, connection: Served, step: Callable[[], None]) -> None:
        """`receive` and `_answer` inline this, because every request passes there."""
        try:
            step()
        except Exception as problem:  # noqa: BLE001 - the supervisor of connections
            self._fail(connection, problem)

    def _fail(self, connection: Served, problem: Exception) -> None:
        """A bug of ours must cost one connection, never the others, and must be logged loudly."""
        times = self._failures.worth_telling(repr(problem))
        if times:
            logger.error(
                "a connection failed inside the broker%s", repeated(times), exc_info=problem
            )
        connection.abort("internal error")
