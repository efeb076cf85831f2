"""PORT: what the replica manager needs from the loop: timers and threaded work.

Used by `replication.replica_manager` and `replication.flusher`. A broker passes its loop, the
simulator its own schedule.
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
        """Calls back on the loop, unless the timer is cancelled first."""

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError | OSError], None],
    ) -> None:
        """Runs blocking work off the loop, then calls one of the two callbacks on the loop."""

    async def drain(self) -> None:
        """Returns when nothing is running."""


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
        # A task starts after this loop iteration: one sync covers all its appends.
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
