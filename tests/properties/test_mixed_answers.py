"""Whatever way answers come in, a connection gives each once and in the order of the requests.

A handler answers at once or later, with bytes, slices of a file or nothing; clients send many
requests in pieces of any size, and some read slowly; the channel is small enough to be full.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop

from floodmark.clock import SystemClock
from floodmark.network.acceptor import Listener
from floodmark.network.server import NetworkServer, NetworkSettings
from floodmark.promise import Promise
from floodmark.storage.files import FileSlice, RealFiles
from kit.seeds import seed

CLIENTS = 6
ROUNDS = 4
SIZES = (0, 1, 100, 5_000, 16_384, 16_385, 40_000)
LARGE_BYTES = 2_500_000
SMALL_BYTES = 3_000
"""At most so large are answers that are bytes."""

STEPS = (1, 7, 500, 4_096, 10_000, 200_000)
PADDINGS = (0, 50, 200, 3_000, 4_087, 9_000, 70_000)
LATER_S = 0.005

AT_ONCE, SLICE, NOTHING, KEPT, PROMISED, WORKED, AWAITED = range(7)
MIXES = (
    (AT_ONCE,),
    (AT_ONCE, NOTHING),
    (AT_ONCE, SLICE, NOTHING, KEPT, PROMISED, WORKED, AWAITED),
    (AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE, SLICE, KEPT),
    (WORKED,),
    (SLICE, PROMISED),
)


class Request(NamedTuple):
    number: int
    kind: int
    size_bytes: int
    padding_bytes: int = 0

    def frame(self) -> bytes:
        fields = (self.number, self.kind, self.size_bytes)
        body = b"".join(field.to_bytes(4, "big") for field in fields) + bytes(self.padding_bytes)
        return len(body).to_bytes(4, "big") + body

    @classmethod
    def of(cls, frame: memoryview) -> "Request":
        return cls(*(int.from_bytes(frame[at : at + 4], "big") for at in (0, 4, 8)))

    def answer(self, data: bytes) -> bytes:
        is_slice = self.kind in (SLICE, PROMISED)
        size_bytes = self.size_bytes if is_slice else min(self.size_bytes, SMALL_BYTES)
        return self.number.to_bytes(4, "big") + data[:size_bytes]


class Answering:
    """A server whose requests say how they are to be answered."""

    def __init__(self, chance: random.Random, path: Path) -> None:
        self._chance = chance
        self.data = chance.randbytes(LARGE_BYTES)
        self._file = RealFiles().open(path)
        self._file.append(self.data)
        listener = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)
        settings = NetworkSettings(io_threads=1, queued_max_requests=2)
        self.network = NetworkServer([listener], self._handle, settings, SystemClock())
        self.network.start()

    def _handle(self, _: Any, frame: memoryview) -> Any:
        request = Request.of(frame)
        slices = [request.number.to_bytes(4, "big"), FileSlice(self._file, 0, request.size_bytes)]
        answer = request.answer(self.data)

        def promise(*, is_kept: bool) -> Promise[None]:
            promised: Promise[None] = Promise()
            if is_kept:
                promised.set(None)
            else:
                self._call_later(lambda: promised.set(None))
            return promised

        def future() -> Promise[None]:
            awaited: Promise[None] = Promise()
            self._call_later(lambda: awaited.set(None))
            return awaited

        async def work() -> bytes:
            await future()
            return answer

        kinds: dict[int, Callable[[], Any]] = {
            AT_ONCE: lambda: answer,
            SLICE: lambda: slices,
            NOTHING: lambda: None,
            KEPT: lambda: promise(is_kept=True).map(lambda _: answer),
            PROMISED: lambda: promise(is_kept=False).map(lambda _: slices),
            WORKED: work,
            AWAITED: lambda: future().map(lambda _: answer),
        }
        return kinds[request.kind]()

    def _call_later(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(self._chance.random() * LATER_S, callback)

    async def close(self) -> None:
        await self.network.close()
        self._file.close()


def requests_of(chance: random.Random) -> list[Request]:
    mix = chance.choice(MIXES)
    sizes = (*SIZES, LARGE_BYTES) if chance.random() < 0.3 else SIZES
    count = chance.choice((20, 60, 200))
    requests = [
        Request(number, chance.choice(mix), chance.choice(sizes), chance.choice(PADDINGS))
        for number in range(count)
    ]
    # The last one is answered at once: its answer shows that all requests are done.
    return [*requests, Request(count, AT_ONCE, 1)]


async def send(writer: asyncio.StreamWriter, data: bytes, chance: random.Random) -> None:
    at = 0
    while at < len(data):
        step = chance.choice(STEPS)
        writer.write(data[at : at + step])
        at += step
        await writer.drain()


async def talk(server: Answering, chance: random.Random) -> None:
    port = server.network.port("PLAINTEXT")
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 14)
    requests = requests_of(chance)
    is_slow = chance.random() < 0.3
    sending = asyncio.create_task(
        send(writer, b"".join(request.frame() for request in requests), chance)
    )
    for request in requests:
        if request.kind == NOTHING:
            continue
        size_bytes = int.from_bytes(await reader.readexactly(4), "big")
        assert await reader.readexactly(size_bytes) == request.answer(server.data), request
        if is_slow and chance.random() < 0.1:
            await asyncio.sleep(LATER_S)  # it reads slowly, as some peers do
    await sending
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_each_answer_comes_once_and_in_order(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    chance = random.Random(seed())

    async def rounds() -> None:
        failures: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        for number in range(ROUNDS):
            server = Answering(chance, tmp_path / f"{number}.log")
            talks = (talk(server, random.Random(chance.random())) for _ in range(CLIENTS))
            async with asyncio.timeout(60):
                await asyncio.gather(*talks)
            assert not any(processor.responses_under_way for processor in server.network.processors)
            await server.close()
        assert not failures

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(rounds())
