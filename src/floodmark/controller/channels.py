"""The controller's way to each broker: instructions in order, each until it is answered.

Made by the controller for its reign. One queue and one task per broker; what a broker does not
answer is sent again every tenth of a second, until its registration goes and `forget` is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from floodmark.controller.instructions import Instruction
from floodmark.occurrences import Occurrences
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""As Kafka's controller: a broker that restarts is told soon, and one that hangs is not flooded."""

Send = Callable[[int, Instruction], Awaitable[Any]]
"""Sends to a broker and returns its answer; OSError when none comes."""


class BrokerChannels:
    def __init__(self, send: Send, on_deposed: Callable[[], None]) -> None:
        """`on_deposed` is called when a broker knows of a later controller."""
        self._send = send
        self._on_deposed = on_deposed
        self._channels: dict[int, _Channel] = {}

    def tell(self, broker_id: int, requests: Sequence[Instruction]) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = _Channel(broker_id, self._send, self._on_deposed)
        channel.put(requests)

    def forget(self, broker_id: int) -> None:
        """The broker is gone, or another process has taken its place: nothing old may reach it."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    async def flushed(self) -> None:
        """Waits until everything that was told so far is answered, or its broker forgotten."""
        await asyncio.gather(*(channel.flushed() for channel in self._channels.values()))

    def close(self) -> None:
        for broker_id in list(self._channels):
            self.forget(broker_id)


class _Channel:
    def __init__(self, broker_id: int, send: Send, on_deposed: Callable[[], None]) -> None:
        self._broker_id = broker_id
        self._send = send
        self._on_deposed = on_deposed
        self._queue: deque[Instruction] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._failures = Occurrences()
        self._task = asyncio.create_task(self._run(), name=f"controller-to-{broker_id}")

    def put(self, requests: Sequence[Instruction]) -> None:
        if requests:
            self._queue.extend(requests)
            self._filled.set()
            self._empty.clear()

    async def flushed(self) -> None:
        await self._empty.wait()

    def close(self) -> None:
        self._task.cancel()
        self._empty.set()

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            while self._queue:
                await self._deliver(self._queue[0])
                self._queue.popleft()
            self._filled.clear()
            self._empty.set()

    async def _deliver(self, request: Instruction) -> None:
        while True:
            try:
                answer = await self._send(self._broker_id, request)
            except OSError as problem:
                times = self._failures.worth_telling(str(problem))
                if times:
                    text = "broker %d cannot be told (%d times by now): %s"
                    logger.warning(text, self._broker_id, times, problem)
                await asyncio.sleep(RETRY_S)
            else:
                self._answered(ErrorCode.of(answer.error_code))
                return

    def _answered(self, code: ErrorCode) -> None:
        """STALE_BROKER_EPOCH needs nothing: the process that took its place is told everything."""
        if code is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._on_deposed()
        elif code not in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH):
            logger.error("broker %d refused an instruction: %s", self._broker_id, code.name)
