"""Sockets are read between a deadline and what it brings about, also after the loop stood still."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from floodmark.coordinators.runtime import CoordinatorRuntime
from floodmark.coordinators.shard import Write
from floodmark.patient_timer import PatientTimer
from floodmark.testing.memory_coordinator_log import MemoryCoordinatorLog
from floodmark.testing.virtual_clock import VirtualClock

STALL_S = 0.03
SESSION_MS = 10

LOOPS = pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])


def run(make_loop: Callable[[], Any], scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scenario())


class Member:
    """A heartbeat in a socket, and how often it was read."""

    def __init__(self, on_heartbeat: Callable[[], None]) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._on_heartbeat = on_heartbeat
        asyncio.get_running_loop().add_reader(self._ours, self._receive)

    def beat(self) -> None:
        self._theirs.send(b"x")

    def _receive(self) -> None:
        self._ours.recv(1)
        self._on_heartbeat()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()


@LOOPS
def test_a_heartbeat_in_the_socket_counts_before_its_session_expires(
    make_loop: Callable[[], Any],
) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        make: Any = lambda _, timers: Idle()  # noqa: E731
        runtime: CoordinatorRuntime[Any] = CoordinatorRuntime(MemoryCoordinatorLog(), clock, make)
        runtime.load(0)
        expired = asyncio.Event()

        def expire(shard: Idle, now_ms: int) -> Write[None]:
            expired.set()
            return Write(None)

        def extend() -> None:
            runtime.schedule(0, "session", SESSION_MS, expire)

        def stand_still() -> None:
            member.beat()
            clock.advance(1000)
            time.sleep(STALL_S)
            stood_still.set()

        # The loop is busy with another's request until the deadline has passed.
        stood_still = asyncio.Event()
        member, other = Member(extend), Member(stand_still)
        extend()
        other.beat()
        await stood_still.wait()
        await asyncio.sleep(SESSION_MS / 2000)
        assert not expired.is_set(), "expelled although its heartbeat had come"
        clock.advance(SESSION_MS)
        await asyncio.wait_for(expired.wait(), 5)
        member.close()
        other.close()
        runtime.close()

    run(make_loop, scenario)


@LOOPS
def test_a_cancelled_timer_never_calls(make_loop: Callable[[], Any]) -> None:
    async def scenario() -> None:
        calls: list[float] = []
        before = PatientTimer(0, lambda: 0.0, calls.append)
        before.cancel()
        waiting = PatientTimer(0, lambda: 0.0, calls.append)
        await asyncio.sleep(0.001)
        waiting.cancel()
        last: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        PatientTimer(0, lambda: 1.0, last.set_result)
        await asyncio.wait_for(last, 5)
        assert len(calls) <= 1

    run(make_loop, scenario)


class Idle:
    """A shard with nothing in it."""

    def loaded(self, now_ms: int) -> None:
        pass

    def unloaded(self) -> None:
        pass
