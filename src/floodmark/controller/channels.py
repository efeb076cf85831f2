"""The controller's channel to each broker: sends instructions in order until they are answered.

Created by the controller for its term. One queue and one task per broker. Unanswered instructions
are sent again every tenth of a second, until the broker's registration ends and `forget` is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from floodmark.controller.instructions import Instruction
from floodmark.occurrences import Occurrences, repeated
from floodmark.supervised import repeat
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""As in Kafka: a restarting broker is retried soon, and a hanging one is not flooded."""

Send = Callable[[int, Instruction], Awaitable[Any]]
"""Sends to a broker and returns its response. Raises OSError if there is none."""

Answered = Callable[[int, Instruction, Any], None]
"""Takes the broker, the instruction, and the response if it is not an error."""


class BrokerChannels:
    def __init__(
        self,
        send: Send,
        on_deposed: Callable[[], None],
        on_answered: Answered = lambda _broker, _request, _answer: None,
    ) -> None:
        """`on_deposed` is called when a broker knows a later controller."""
        self._send = send
        self._on_deposed = on_deposed
        self._on_answered = on_answered
        self._channels: dict[int, _Channel] = {}
        self._farewells: dict[int, asyncio.Task[None]] = {}

    def tell(self, broker_id: int, requests: Sequence[Instruction]) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = _Channel(
                broker_id, self._send, self._on_deposed, self._on_answered
            )
        channel.put(requests)

    def forget(self, broker_id: int) -> None:
        """The broker is gone or was replaced by another process: nothing old may reach it."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()
        farewell = self._farewells.pop(broker_id, None)
        if farewell is not None:
            farewell.cancel()

    def take_leave(self, broker_id: int, requests: Sequence[Instruction]) -> None:
        """The broker's session has ended. Sends a last instruction, in case its process lives."""
        self.forget(broker_id)
        farewell = self._say_last(broker_id, requests)
        self._farewells[broker_id] = asyncio.create_task(farewell, name=f"farewell-{broker_id}")

    async def _say_last(self, broker_id: int, requests: Sequence[Instruction]) -> None:
        """Sends once, because most such brokers are gone."""
        for request in requests:
            try:
                answer = await self._send(broker_id, request)
            except OSError as problem:
                logger.debug("could not send farewells to broker %d: %s", broker_id, problem)
                return
            if ErrorCode.of(answer.error_code) is ErrorCode.STALE_CONTROLLER_EPOCH:
                self._on_deposed()
                return

    async def flushed(self) -> None:
        """Waits until every instruction so far is answered or its broker forgotten."""
        await asyncio.gather(*(channel.flushed() for channel in self._channels.values()))

    def close(self) -> None:
        for broker_id in [*self._channels, *self._farewells]:
            self.forget(broker_id)


class _Channel:
    def __init__(
        self, broker_id: int, send: Send, on_deposed: Callable[[], None], on_answered: Answered
    ) -> None:
        self._broker_id = broker_id
        self._send = send
        self._on_deposed = on_deposed
        self._on_answered = on_answered
        self._queue: deque[Instruction] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._failures = Occurrences()
        name = f"controller-to-{broker_id}"
        self._task = asyncio.create_task(repeat(name, self._deliver_all), name=name)

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

    async def _deliver_all(self) -> None:
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
                    text = "could not reach broker %d%s: %s"
                    logger.warning(text, self._broker_id, repeated(times), problem)
                await asyncio.sleep(RETRY_S)
            else:
                self._answered(request, answer)
                return

    def _answered(self, request: Instruction, answer: Any) -> None:
        """STALE_BROKER_EPOCH needs no action: the new process gets everything anyway."""
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._on_answered(self._broker_id, request, answer)
        elif code is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._on_deposed()
        elif code is not ErrorCode.STALE_BROKER_EPOCH:
            logger.error("broker %d refused an instruction: %s", self._broker_id, code.name)
