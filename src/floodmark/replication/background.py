"""PORT: what the replica manager needs of the loop: timers, and work in threads.

`replication.replica_manager` and `replication.flusher` use it. A broker gives them the loop it runs
on, the simulator a schedule of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from floodmark.storage.errors import StorageError

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Background(Protocol):
    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Calls back on the loop, unless the timer is cancelled before."""

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError | OSError], None],
    ) -> None:
        """Does work that blocks off the loop, and calls one of the two on the loop afterwards."""

    async def drain(self) -> None:
        """Returns when nothing runs any more."""


class LoopBackground:
    """The running loop and a pool of threads."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: set[asyncio.Task[None]] = set()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError | OSError], None],
    ) -> None:
        # A task begins after this turn of the loop: one sync covers all appends of the turn.
        task = asyncio.get_running_loop().create_task(self._run(work, done, failed))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError | OSError], None],
    ) -> None:
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except (StorageError, OSError) as problem:
            failed(problem)
        else:
            done(outcome)

    async def drain(self) -> None:
        while self._running:
            await asyncio.gather(*self._running)
