"""Many clients in one thread: each has one request in flight, and its answer decides the next.

Used by coordinator_cases.py and rebalance.py, where a client is more than a loop over one frame.
"""

import select
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import wire


class Actor(Protocol):
    """A client. `wake_at` is when it wants to send again while nothing of it is in flight."""

    connection: wire.Connection
    wake_at: float | None

    def answered(self, answer: bytes) -> bytearray | None:
        """The next request, or None to rest."""

    def woken(self) -> bytearray | None:
        """The request for which it wanted to be woken."""


def run(actors: Sequence[Actor], is_done: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Serve them until `is_done`; an actor with nothing in flight must have a `wake_at`."""
    poller = select.epoll()
    by_number = {actor.connection.socket.fileno(): actor for actor in actors}
    for number in by_number:
        poller.register(number, select.EPOLLIN)
    deadline = time.perf_counter() + patience_s
    try:
        while not is_done():
            now = time.perf_counter()
            if now > deadline:
                raise TimeoutError(f"not done after {patience_s} s")
            next_wake = _wake(actors, now)
            # Up to the next millisecond: epoll knows no finer time.
            for number, _ in poller.poll(min(max(next_wake - now, 0.001), 1.0)):
                actor = by_number[number]
                following = actor.answered(actor.connection.receive())
                if following is not None:
                    actor.connection.send(following)
    finally:
        poller.close()


def _wake(actors: Sequence[Actor], now: float) -> float:
    """Let those send whose time has come; returns when the next one wants to."""
    next_wake = now + 1.0
    for actor in actors:
        wake_at = actor.wake_at
        if wake_at is None:
            continue
        if wake_at > now:
            next_wake = min(next_wake, wake_at)
            continue
        actor.wake_at = None
        request = actor.woken()
        if request is not None:
            actor.connection.send(request)
    return next_wake
