"""Deferred work that must not run on the loop: removing the files of deleted logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class Deferred:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._waiting: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def run_later(
        self, delay_ms: float, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        def call() -> None:
            try:
                work(*args, **kwargs)
            except OSError as problem:
                logger.warning("could not remove deleted files until the next start: %s", problem)

        def due() -> None:
            del self._waiting[timer]
            loop.run_in_executor(self._executor, call)

        loop = asyncio.get_running_loop()
        timer = loop.call_later(delay_ms / 1000, due)
        self._waiting[timer] = call

    def close(self) -> None:
        """Runs pending work now, because there is no later."""
        for timer, call in list(self._waiting.items()):
            timer.cancel()
            call()
        self._waiting.clear()
