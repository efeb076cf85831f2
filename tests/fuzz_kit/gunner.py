"""Fires shots over TCP, from several connections at a time, and counts what came back."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable

from fuzz_kit.shots import Shot, ShotMaker, Then

ANSWER_TIMEOUT_S = 10.0
PERHAPS_TIMEOUT_S = 0.04
SHOTS_PER_CONNECTION = 40
MAX_SILENT = 100
"""Connections that are left open in the middle of something, the oldest closed first."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Door = Callable[[], Awaitable[Streams]]
"""Opens a connection, and authenticates where that is wanted."""


def plain_door(port: int) -> Door:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def _anything_goes(_shot: Shot, _answer: bytes) -> None:
    return None


class Gunner:
    def __init__(
        self,
        door: Door,
        shots: ShotMaker,
        judge: Callable[[Shot, bytes], None] = _anything_goes,
    ) -> None:
        """`judge` sees every answer, and raises when it should not have come."""
        self._door = door
        self._shots = shots
        self._judge = judge
        self._silent: deque[asyncio.StreamWriter] = deque()
        self.fired: Counter[str] = Counter()
        self.answers = 0
        self.closed = 0
        self.unanswered: list[Shot] = []

    async def fire(self, count: int) -> None:
        while count > 0:
            streams = await self._door()
            count -= await self._use(streams, min(count, SHOTS_PER_CONNECTION))

    async def close(self) -> None:
        while self._silent:
            await _close(self._silent.popleft())

    async def _use(self, streams: Streams, count: int) -> int:
        """Fires until the connection ends or is used up; returns how many were fired."""
        reader, writer = streams
        for fired in range(1, count + 1):
            shot = self._shots.next()
            self.fired[shot.kind] += 1
            writer.write(shot.data)
            if shot.then is Then.SILENCE:
                await self._leave_open(writer)
                return fired
            if shot.then is not Then.GO_ON and not await self._took_answer(reader, shot):
                await _close(writer)
                return fired
        await _close(writer)
        return count

    async def _took_answer(self, reader: asyncio.StreamReader, shot: Shot) -> bool:
        """Whether the connection can go on."""
        must_come = shot.then is Then.ANSWER
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S if must_come else PERHAPS_TIMEOUT_S):
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed += 1
            return False
        except TimeoutError:
            if must_come:
                self.unanswered.append(shot)
            return False
        self.answers += 1
        self._judge(shot, answer)
        if shot.learn is not None:
            shot.learn(answer)
        return True

    async def _leave_open(self, writer: asyncio.StreamWriter) -> None:
        self._silent.append(writer)
        if len(self._silent) > MAX_SILENT:
            await _close(self._silent.popleft())


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except ConnectionError:
        return
