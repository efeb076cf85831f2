"""Whether this broker may have lost its session without knowing it. Created by broker.py.

A process that was paused (SIGSTOP, a sleeping machine, a blocked loop) finds requests in its
sockets when it resumes, and would acknowledge them as a leader. Others may lead by then. So after a
gap it accepts no records until the store has confirmed its registration. An outage of the store
alone is harmless: nobody else can be elected meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from floodmark.clock import Clock
from floodmark.metadata.store import StoreError

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class SessionDoubt:
    """Called before each append. Cheap, because there is almost never a gap."""

    def __init__(
        self, session_timeout_ms: int, clock: Clock, is_registered: Callable[[], Awaitable[bool]]
    ) -> None:
        """`is_registered` asks the store. It raises StoreError if there is no response."""
        # The session renews every third of the timeout, so a shorter gap cannot end it.
        self._limit_ms = session_timeout_ms / 2
        self._clock = clock
        self._is_registered = is_registered
        self._seen_ms = clock.monotonic_ms()
        self._doubting: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._seen_ms = self._clock.monotonic_ms()
        self._ticking = asyncio.create_task(self._tick(), name="session-doubt")

    async def close(self) -> None:
        tasks = [task for task in (self._ticking, self._doubting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __call__(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        gap_ms, self._seen_ms = now_ms - self._seen_ms, now_ms
        if gap_ms > self._limit_ms and self._doubting is None:
            logger.warning("this process was paused for %.1f s", gap_ms / 1000)
            self._doubting = asyncio.create_task(self._confirm(), name="session-check")
        return self._doubting is not None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._limit_ms / 4 / 1000)
            self()

    async def _confirm(self) -> None:
        while True:
            try:
                if await self._is_registered():
                    break
            except StoreError as problem:
                logger.info("could not confirm the session yet: %s", problem)
            await asyncio.sleep(RETRY_S)
        self._doubting = None
