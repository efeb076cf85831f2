"""A failure, of a request, a file or the memory, ends its own connection and no other."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from floodmark.network.connection import FRAMES_OF_A_TURN
from floodmark.network.framing import INITIAL_BYTES, FrameBuffer
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from kit.connections import MemoryServer, settled

Serve = Callable[..., MemoryServer]
EIO = OSError(errno.EIO, "Input/output error")


class Failing:
    """A piece of a file that cannot be read whole."""

    def __init__(self, size_bytes: int, problem: Exception | None) -> None:
        self._size_bytes = size_bytes
        self._problem = problem

    def __len__(self) -> int:
        return self._size_bytes

    def read(self, start: int, size: int) -> bytes:
        """Its first half is there, unless there is a problem."""
        if self._problem is None:
            return bytes(min(size, max(0, self._size_bytes // 2 - start)))
        raise self._problem

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        raise AssertionError("there is no socket")

    def let_go(self) -> None:
        pass


async def test_answers_given_before_a_bad_request_of_the_same_turn_arrive(serve: Serve) -> None:
    def closes_on_zero(_: Any, frame: memoryview) -> bytes:
        if frame[0] == 0:
            raise CloseConnection("a zero came")
        return bytes(frame)

    client = serve(closes_on_zero).connect()
    client.request(b"\x01", b"\x02", b"\x00")
    assert await client.closed() == b"\0\0\0\x01\x01\0\0\0\x01\x02"


@pytest.mark.parametrize("problem", [CloseConnection("enough"), RuntimeError("a defect")])
async def test_a_failing_request_ends_only_its_own_connection(
    serve: Serve, problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_on_zero(_: Any, frame: memoryview) -> list[bytes]:
        if frame[0] == 0:
            raise problem
        return [bytes(frame)]

    server = serve(fail_on_zero)
    bad, good = server.connect(), server.connect()
    bad.request(b"\x00")
    assert await bad.closed() == b""
    good.request(b"\x01")
    assert await good.answer() == b"\x01"
    assert "closing the connection" in caplog.text


async def test_a_frame_of_impossible_size_ends_its_connection(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(lambda _, frame: bytes(frame), max_frame_bytes=1000).connect()
    client.request(b"before")
    client.write((1001).to_bytes(4, "big"))
    assert await client.closed() == b"\0\0\0\x06before"
    assert "the limit is 1000" in caplog.text


async def test_an_answer_whose_file_is_cut_ends_only_its_own_connection(serve: Serve) -> None:
    size_bytes = 5 << 20
    cut = Failing(size_bytes, None)
    server = serve(lambda _, frame: [cut] if frame == b"cut" else [bytes(frame)])
    client, other = server.connect(), server.connect()
    client.request(b"cut")
    with pytest.raises(EOFError):
        await client.answer()
    other.request(b"other")
    assert await other.answer() == b"other"


async def test_a_defect_in_sending_ends_only_its_own_connection(serve: Serve) -> None:
    defective = Failing(100_000, ValueError("a defect"))
    server = serve(lambda _, frame: [defective] if frame == b"bad" else bytes(frame))
    bad, good = server.connect(), server.connect()
    bad.request(b"bad")
    good.request(b"good")
    assert await good.answer() == b"good"
    with pytest.raises(EOFError):
        await bad.answer()
    await settled()
    assert server.connections == 1


async def test_a_defect_in_a_later_turn_of_a_connection_ends_it(serve: Serve) -> None:
    client = serve(lambda _, frame: [None] if frame == b"bad" else bytes(frame)).connect()
    client.request(*[b"x" for _ in FRAMES_OF_A_TURN], b"bad")
    for _ in FRAMES_OF_A_TURN:
        assert await client.answer() == b"x"
    assert await client.closed() == b""


async def test_after_a_long_poll_an_unreadable_answer_ends_the_connection(serve: Serve) -> None:
    """The second request is taken up by `go_on`."""
    waiting: Promise[bytes] = Promise()

    def handler(_: Any, frame: memoryview) -> Any:
        if frame[0] == 0:
            return waiting.map(lambda body: [body])
        return [Failing(100, EIO)]

    server = serve(handler)
    client = server.connect()
    client.request(b"\x00", b"\x01")
    await settled()
    assert server.under_way == 1
    waiting.set(b"first")
    assert await client.answer() == b"first"
    assert await client.closed() == b""


async def test_an_unreadable_answer_of_a_long_poll_ends_the_connection(serve: Serve) -> None:
    waiting: Promise[bytes] = Promise()
    client = serve(lambda _, frame: waiting.map(lambda _: [Failing(100, EIO)])).connect()
    client.request(b"x")
    await settled()
    waiting.set(b"")
    assert await client.closed() == b""


async def test_in_the_first_turn_an_unreadable_answer_ends_the_connection(serve: Serve) -> None:
    client = serve(lambda _, frame: [Failing(100, EIO)]).connect()
    client.request(b"\x01")
    assert await client.closed() == b""


@pytest.mark.parametrize("problem", [None, EIO])
async def test_answers_given_before_an_unreadable_one_of_the_same_turn_arrive(
    serve: Serve, problem: OSError | None
) -> None:
    def handler(_: Any, frame: memoryview) -> Any:
        return [Failing(100, problem)] if frame[0] == 0 else bytes(frame)

    client = serve(handler).connect()
    client.request(b"\x01", b"\x02", b"\x00")
    assert await client.closed() == b"\0\0\0\x01\x01\0\0\0\x01\x02"


async def test_an_unreadable_answer_does_not_keep_the_others_out_of_the_channel(
    serve: Serve,
) -> None:
    gate = asyncio.Event()

    def handler(_: Any, frame: memoryview) -> Any:
        if frame == b"bad":
            return [Failing(100, EIO)]
        if frame == b"good":
            return b"at once"

        async def work() -> bytes:
            await gate.wait()
            return b"done"

        return work()

    server = serve(handler, slots=1, capacity=1)
    _, _, bad, good = clients = [server.connect() for _ in range(4)]
    for number, body in enumerate((b"slow", b"slow", b"bad", b"good")):
        clients[number].request(body)
        await settled()
        assert server.under_way == number + 1
    gate.set()
    assert await good.answer() == b"at once"
    assert await bad.closed() == b""


async def test_a_request_without_memory_ends_only_its_own_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(frames: FrameBuffer, size_bytes: int) -> None:
        raise MemoryError

    server = serve(lambda _, frame: bytes(frame))
    small, large = server.connect(), server.connect()
    small.request(b"before")
    assert await small.answer() == b"before"
    monkeypatch.setattr(FrameBuffer, "_allocate", refuse)
    large.request(bytes(INITIAL_BYTES))
    assert await large.closed() == b""
    small.request(b"after")
    assert await small.answer() == b"after"
