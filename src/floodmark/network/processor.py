"""Owns a share of the connections: creates them, counts their traffic, closes idle ones.

A processor stands for one of Kafka's network threads (`num.network.threads`). Here all of them
share the broker's one loop. What remains is the round-robin distribution and the meters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from floodmark.clock import Clock
from floodmark.network.connection import Connection, Peer
from floodmark.network.port import Port
from floodmark.network.request_channel import RequestChannel
from floodmark.network.turns import Turns
from floodmark.occurrences import Occurrences

SHRINK_AFTER_QUIET_MS = 5_000
"""A connection quiet for this long frees the space of its largest request."""


class StrangerLimits(NamedTuple):
    """What a peer may use before it has authenticated."""

    max_frame_bytes: int = 512 * 1024
    timeout_ms: int = 30_000


STRANGERS = StrangerLimits()


class Processor:
    def __init__(
        self,
        index: int,
        turns: Turns,
        channel: RequestChannel,
        clock: Clock,
        *,
        max_frame_bytes: int,
        max_idle_ms: int,
        strangers: StrangerLimits = STRANGERS,
    ) -> None:
        self.strangers = strangers
        self.index = index
        self.clock = clock
        self.connections: set[Connection] = set()
        self.bytes_in = 0
        self.bytes_out = 0
        self.aborts = Occurrences()
        self._turns = turns
        self._channel = channel
        self._max_frame_bytes = max_frame_bytes
        self._max_idle_ms = max_idle_ms
        self._on_forget: dict[Connection, Callable[[], None]] = {}

    def adopt(self, peer: Peer, port: Port, on_closed: Callable[[], None]) -> None:
        """Serves an accepted connection. Raises OSError if the system cannot."""
        connection = Connection(self, self._turns, peer, port, self._channel, self._max_frame_bytes)
        connection.start()
        self.connections.add(connection)
        self._on_forget[connection] = on_closed

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        on_closed = self._on_forget.pop(connection, None)
        if on_closed is not None:
            on_closed()

    @property
    def responses_under_way(self) -> int:
        return sum(connection.state.is_muted for connection in self.connections)

    def sweep(self) -> None:
        """Closes connections idle beyond `connections.max.idle.ms` and shrinks quiet ones.

        A connection with a request in progress, such as a long poll, is not idle, as long as we
        would notice that the peer leaves.
        """
        now_ms = self.clock.monotonic_ms()
        for connection in list(self.connections):
            if self._is_overdue(connection, now_ms):
                connection.abort("it did not authenticate in time")
                continue
            if connection.state.is_muted and not connection.is_paused:
                continue
            if connection.is_active:
                connection.is_active = False
                connection.last_active_ms = now_ms
            quiet_ms = now_ms - connection.last_active_ms
            if 0 <= self._max_idle_ms < quiet_ms:
                connection.close()
            elif quiet_ms > SHRINK_AFTER_QUIET_MS:
                connection.give_back_memory()

    def _is_overdue(self, connection: Connection, now_ms: float) -> bool:
        if connection.peer.principal is not None:
            connection.stranger_since_ms = None
            return False
        if connection.stranger_since_ms is None:
            connection.stranger_since_ms = now_ms
        return now_ms - connection.stranger_since_ms > self.strangers.timeout_ms

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()
