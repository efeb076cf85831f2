"""A timer for deadlines that a client can extend: it lets the loop read the sockets first.

If the loop stalls (a stopped process, a slow disk, a sleeping machine), requests wait unread in
their sockets, and uvloop runs timers before it reads. Without this, clients would expire although
their heartbeats had arrived. Used for all coordinator timers and for idle connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

TURNS: Final = 4
"""Loop turns between the deadline and the call. In the first, uvloop may run callbacks before it
polls sockets; the others are for requests queued behind others on the same connection."""


class PatientTimer:
    """Calls `expire` with the time at which the timer fired. Later deadlines must not expire yet,
    because the sockets have not been read since."""

    __slots__ = ("_expire", "_handle", "_now_ms")

    def __init__(
        self, delay_ms: float, now_ms: Callable[[], float], expire: Callable[[float], None]
    ) -> None:
        self._now_ms = now_ms
        self._expire = expire
        delay_s = max(0.0, delay_ms) / 1000
        loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = loop.call_later(delay_s, self._fire)

    def cancel(self) -> None:
        self._handle.cancel()

    def _fire(self) -> None:
        self._wait(self._now_ms(), TURNS)

    def _wait(self, fired_ms: float, turns: int) -> None:
        if turns:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_soon(self._wait, fired_ms, turns - 1)
        else:
            self._expire(fired_ms)
