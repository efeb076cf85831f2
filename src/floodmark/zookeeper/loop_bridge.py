"""Connects kazoo's threads with the asyncio loop: responses become awaitable, events become calls
on the loop.

Used by `client.py` (one session) and `session.py` (a client over many sessions), which differ in
how they handle lost connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from kazoo.client import KazooClient


class Result(Protocol):
    """What kazoo's `_async` calls return, and later pass to linked callbacks."""

    value: Any
    exception: BaseException | None

    def rawlink(self, callback: Callable[[Result], None]) -> None: ...


class LoopBridge:
    """Created on the loop. Any thread may call `call` and `settle`."""

    def __init__(self, kazoo: KazooClient) -> None:
        self._kazoo = kazoo
        self._loop = asyncio.get_running_loop()

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        # RuntimeError: the loop has closed before kazoo's threads ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def settle(self, future: asyncio.Future[Any], value: Any) -> None:
        self.call(_settle, future, value, None)

    async def answer(
        self, timeout_s: float, operation: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Any:
        """Runs one of kazoo's `_async` calls. Raises its exceptions, and TimeoutError."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Result) -> None:
            self.call(_settle, future, result.value, result.exception)

        operation(*arguments, **options).rawlink(done)
        async with asyncio.timeout(timeout_s):
            return await future

    async def in_thread(self, blocking: Callable[..., object], *arguments: object) -> None:
        await self._loop.run_in_executor(None, blocking, *arguments)

    async def stop(self) -> None:
        """Ends the session and kazoo's threads."""
        await self.in_thread(end, self._kazoo)


def end(kazoo: KazooClient) -> None:
    """Blocks."""
    kazoo.stop()
    kazoo.close()


def _settle(future: asyncio.Future[Any], value: Any, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(value)
