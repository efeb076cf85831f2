"""Connections over real sockets, with handlers made for the test (SPEC N1 to N5)."""

import asyncio
import contextlib
import errno
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from floodmark.network.acceptor import Listener
from floodmark.network.connection import FRAMES_OF_A_TURN
from floodmark.network.framing import INITIAL_BYTES, FrameBuffer
from floodmark.network.poller import Poller
from floodmark.network.request_channel import CloseConnection, Parked
from floodmark.network.server import NetworkServer, NetworkSettings
from floodmark.network.transfer import SENT_AT_ONCE_BYTES, SMALL_BYTES
from floodmark.promise import Promise
from floodmark.storage.files import FileSlice, RealFiles
from floodmark.testing.virtual_clock import VirtualClock

Handler = Callable[[Any, memoryview], Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[..., NetworkServer]


class Ports:
    """Servers and connections of one test; all are closed at its end."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._servers: list[NetworkServer] = []
        self._writers: list[asyncio.StreamWriter] = []

    def serve(self, handler: Handler, **settings: int) -> NetworkServer:
        listener = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)
        server = NetworkServer([listener], handler, NetworkSettings(**settings), self.clock)
        server.start()
        self._servers.append(server)
        return server

    async def connect(self, server: NetworkServer) -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
        self._writers.append(streams[1])
        return streams

    async def close(self) -> None:
        for server in self._servers:
            await server.close()
        for writer in self._writers:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.fixture
async def ports() -> AsyncIterator[Ports]:
    ports = Ports()
    yield ports
    await ports.close()


def echo(_: Any, frame: memoryview) -> bytes:
    return bytes(frame)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(10):
            return await reader.read(1) == b""
    except ConnectionError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def test_requests_sent_at_once_are_answered_in_their_order(ports: Ports) -> None:
    waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def first_waits(_: Any, frame: memoryview) -> Any:
        if frame[0] == 0:
            return Parked(waiting, lambda body: [body])
        return [bytes(frame)]

    reader, writer = await ports.connect(ports.serve(first_waits))
    writer.write(framed(b"\x00") + framed(b"\x01") + framed(b"\x02"))
    await writer.drain()
    await asyncio.sleep(0.01)
    waiting.set_result(b"first")
    assert [await read_frame(reader) for _ in range(3)] == [b"first", b"\x01", b"\x02"]


@pytest.mark.parametrize("size_bytes", [1, 100, 250, 252, 253, 1000])
async def test_a_turn_that_ends_with_a_full_buffer_goes_on(ports: Ports, size_bytes: int) -> None:
    server = ports.serve(echo)
    reader, writer = await ports.connect(server)
    requests = [framed(bytes([number % 256]) * size_bytes) for number in range(1000)]
    writer.write(b"".join(requests))
    assert await reader.readexactly(sum(map(len, requests))) == b"".join(requests)


async def test_answers_given_before_a_bad_request_of_the_same_turn_arrive(ports: Ports) -> None:
    def closes_on_zero(_: Any, frame: memoryview) -> bytes:
        if frame[0] == 0:
            raise CloseConnection("a zero came")
        return bytes(frame)

    reader, writer = await ports.connect(ports.serve(closes_on_zero))
    writer.write(framed(b"\x01") + framed(b"\x02") + framed(b"\x00"))
    assert [await read_frame(reader) for _ in range(2)] == [b"\x01", b"\x02"]
    assert await is_closed(reader)


async def test_a_connection_has_one_request_under_way_at_a_time(ports: Ports) -> None:
    started: list[int] = []
    gate = asyncio.Event()

    def slow(_: Any, frame: memoryview) -> Awaitable[list[bytes]]:
        started.append(frame[0])

        async def work() -> list[bytes]:
            await gate.wait()
            return [b"done"]

        return work()

    server = ports.serve(slow)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"\x00") + framed(b"\x01"))
    await until(lambda: bool(started))
    await asyncio.sleep(0.01)
    assert started == [0]
    assert sum(p.responses_under_way for p in server.processors) == 1
    gate.set()
    assert [await read_frame(reader) for _ in range(2)] == [b"done", b"done"]
    assert started == [0, 1]


async def test_a_request_without_answer_lets_the_next_one_in(ports: Ports) -> None:
    def silent_for_zero(_: Any, frame: memoryview) -> list[bytes] | None:
        return None if frame[0] == 0 else [bytes(frame)]

    reader, writer = await ports.connect(ports.serve(silent_for_zero))
    writer.write(framed(b"\x00") + framed(b"\x01"))
    assert await read_frame(reader) == b"\x01"


async def test_a_frame_larger_than_any_buffer_arrives_whole(ports: Ports) -> None:
    reader, writer = await ports.connect(ports.serve(echo))
    body = bytes(range(256)) * 4000
    for _ in range(2):
        writer.write(framed(body))
        assert await read_frame(reader) == body


async def test_a_frame_that_comes_byte_by_byte_arrives_whole(ports: Ports) -> None:
    reader, writer = await ports.connect(ports.serve(echo))
    for byte in framed(b"slowly"):
        writer.write(bytes([byte]))
        await writer.drain()
    assert await read_frame(reader) == b"slowly"


@pytest.mark.parametrize("problem", [CloseConnection("enough"), RuntimeError("a defect")])
async def test_a_failing_request_ends_only_its_own_connection(
    ports: Ports, problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_on_zero(_: Any, frame: memoryview) -> list[bytes]:
        if frame[0] == 0:
            raise problem
        return [bytes(frame)]

    server = ports.serve(fail_on_zero)
    bad_reader, bad_writer = await ports.connect(server)
    good_reader, good_writer = await ports.connect(server)
    bad_writer.write(framed(b"\x00"))
    assert await is_closed(bad_reader)
    good_writer.write(framed(b"\x01"))
    assert await read_frame(good_reader) == b"\x01"
    assert "closing the connection" in caplog.text


async def test_when_slots_and_queue_are_full_reading_stops_and_nothing_is_lost(
    ports: Ports,
) -> None:
    gate = asyncio.Event()
    started = 0

    def slow(_: Any, frame: memoryview) -> Awaitable[list[bytes]]:
        body = bytes(frame)

        async def work() -> list[bytes]:
            nonlocal started
            started += 1
            await gate.wait()
            return [body]

        return work()

    server = ports.serve(slow, io_threads=2, queued_max_requests=3)
    connections = [await ports.connect(server) for _ in range(10)]
    for number, (_, writer) in enumerate(connections):
        writer.write(framed(bytes([number])))
    await until(lambda: server.channel.queue_size == 3)
    await asyncio.sleep(0.01)
    assert (started, server.channel.queue_size) == (2, 3)
    gate.set()
    for number, (reader, _) in enumerate(connections):
        assert await read_frame(reader) == bytes([number])


async def test_what_is_answered_at_once_does_not_wait_for_a_slot(ports: Ports) -> None:
    gate = asyncio.Event()

    def handle(_: Any, frame: memoryview) -> Any:
        body = bytes(frame)

        async def work() -> list[bytes]:
            await gate.wait()
            return [body]

        return work() if body == b"slow" else [body]

    server = ports.serve(handle, io_threads=1, queued_max_requests=10)
    slow = [await ports.connect(server) for _ in range(3)]
    for _, writer in slow:
        writer.write(framed(b"slow"))
    await until(lambda: server.channel.queue_size == 2)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"quick"))
    assert await read_frame(reader) == b"quick"
    gate.set()
    for slow_reader, _ in slow:
        assert await read_frame(slow_reader) == b"slow"


async def test_the_answer_for_a_peer_that_left_is_dropped(ports: Ports) -> None:
    waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    server = ports.serve(lambda _, frame: Parked(waiting, lambda body: [body]))
    _, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 1)
    writer.transport.abort()
    await until(lambda: server.limits.total == 0)
    waiting.set_result(b"late")
    await asyncio.sleep(0)
    assert sum(p.responses_under_way for p in server.processors) == 0


async def test_a_peer_that_left_while_its_request_waited_in_the_queue_is_survived(
    ports: Ports,
) -> None:
    gate = asyncio.Event()

    def slow(_: Any, frame: memoryview) -> Awaitable[list[bytes]]:
        async def work() -> list[bytes]:
            await gate.wait()
            return [b"done"]

        return work()

    server = ports.serve(slow, io_threads=1, queued_max_requests=1)
    stays, leaves, refused = [await ports.connect(server) for _ in range(3)]
    stays[1].write(framed(b"0"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 1)
    leaves[1].write(framed(b"1"))
    await until(lambda: server.channel.queue_size == 1)
    refused[1].write(framed(b"2"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 3)
    leaves[1].transport.abort()
    refused[1].transport.abort()
    # The refused one is not read from, so that its end is seen only when there is room again.
    await until(lambda: server.limits.total == 2)
    gate.set()
    assert await read_frame(stays[0]) == b"done"
    stays[1].write(framed(b"3"))
    assert await read_frame(stays[0]) == b"done"
    await until(lambda: server.limits.total == 1)
    assert sum(p.responses_under_way for p in server.processors) == 0


async def test_a_peer_that_takes_no_answers_is_not_read_from_for_ever(ports: Ports) -> None:
    answer = bytes(1_000_000)
    handled = 0

    def large(_: Any, frame: memoryview) -> list[bytes]:
        nonlocal handled
        handled += 1
        return [answer]

    server = ports.serve(large)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x") * 100)
    await until(lambda: handled > 0)
    await asyncio.sleep(0.05)
    assert handled < 50, "answers pile up in memory"
    for _ in range(100):
        assert len(await read_frame(reader)) == len(answer)
    assert handled == 100


class Zeros:
    """A slice of a large file that remembers how much of it was read."""

    def __init__(self, size_bytes: int, kept_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._kept_bytes = kept_bytes
        self.read_bytes = 0

    def __len__(self) -> int:
        return self._size_bytes

    def read(self, start: int, size: int) -> bytes:
        self.read_bytes += size
        return bytes(min(size, max(0, self._kept_bytes - start)))

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        return 0


async def test_what_a_peer_does_not_take_is_not_read_from_the_file(ports: Ports) -> None:
    size_bytes = 50 << 20
    records = Zeros(size_bytes, size_bytes)
    answers = iter([[b"head", records, b"end"], [b"next"]])
    server = ports.serve(lambda _, frame: next(answers))
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x") * 2)
    await until(lambda: any(c._is_blocked for p in server.processors for c in p.connections))
    # The buffers of two sockets and one stream take some of it.
    assert records.read_bytes < 20 << 20
    assert await read_frame(reader) == b"head" + bytes(size_bytes) + b"end"
    assert await read_frame(reader) == b"next"


async def test_an_answer_whose_file_is_cut_ends_only_its_own_connection(ports: Ports) -> None:
    size_bytes = 50 << 20
    cut = Zeros(size_bytes, size_bytes // 2)
    server = ports.serve(lambda _, frame: [cut] if frame == b"cut" else [bytes(frame)])
    reader, writer = await ports.connect(server)
    other_reader, other_writer = await ports.connect(server)
    writer.write(framed(b"cut"))
    with pytest.raises(asyncio.IncompleteReadError):
        await read_frame(reader)
    other_writer.write(framed(b"other"))
    assert await read_frame(other_reader) == b"other"


@pytest.mark.parametrize("reads_at_once", [1 << 20, 10_000])
async def test_slices_of_files_arrive_whole_and_in_their_place(
    ports: Ports, tmp_path: Path, reads_at_once: int
) -> None:
    content = random.Random(7).randbytes(9 << 20)
    (tmp_path / "log").write_bytes(content)
    file = RealFiles().open(tmp_path / "log")
    stretches = [(0, 1 << 20), (5, 6 << 20), (1 << 20, 100), (3, SMALL_BYTES + 1), (0, 9 << 20)]
    answer: list[Any] = [b"head"]
    expected = b"head"
    for position, size_bytes in stretches:
        answer += [FileSlice(file, position, size_bytes), b"between"]
        expected += content[position : position + size_bytes] + b"between"
    reader, writer = await ports.connect(ports.serve(lambda _, frame: [bytes(frame), *answer]))
    writer.write(b"".join(framed(bytes([number])) for number in range(3)))
    for number in range(3):
        size_bytes = int.from_bytes(await reader.readexactly(4), "big")
        received = bytearray()
        while len(received) < size_bytes:
            received += await reader.read(min(reads_at_once, size_bytes - len(received)))
        assert received == bytes([number]) + expected
    file.close()


async def test_connections_beyond_the_limit_of_an_address_are_closed(ports: Ports) -> None:
    server = ports.serve(echo, max_connections_per_ip=2)
    kept = [await ports.connect(server) for _ in range(2)]
    await until(lambda: server.limits.total == 2)
    reader, _ = await ports.connect(server)
    assert await is_closed(reader)
    for reader, writer in kept:
        writer.write(framed(b"x"))
        assert await read_frame(reader) == b"x"


async def test_a_full_broker_takes_new_connections_when_old_ones_close(ports: Ports) -> None:
    server = ports.serve(echo, max_connections=1)
    _, first = await ports.connect(server)
    await until(lambda: server.limits.total == 1)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    await asyncio.sleep(0.02)
    assert server.limits.total == 1
    ports.clock.advance(100)
    assert server.acceptors[0].blocked_share() > 0
    first.transport.abort()
    assert await read_frame(reader) == b"x"


async def test_idle_connections_are_closed_and_waiting_ones_are_not(ports: Ports) -> None:
    waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    server = ports.serve(lambda _, frame: Parked(waiting, lambda body: [body]), max_idle_ms=1000)
    idle_reader, _ = await ports.connect(server)
    busy_reader, busy_writer = await ports.connect(server)
    busy_writer.write(framed(b"x"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 1)
    await until(lambda: server.limits.total == 2)
    ports.clock.advance(1001)
    for processor in server.processors:
        processor.sweep()
    assert await is_closed(idle_reader)
    waiting.set_result(b"late")
    assert await read_frame(busy_reader) == b"late"


async def test_a_waiting_connection_that_cannot_be_seen_to_leave_is_closed_in_the_end(
    ports: Ports,
) -> None:
    waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    server = ports.serve(lambda _, frame: Parked(waiting, lambda body: [body]), max_idle_ms=1000)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x") + bytes(1 << 20))
    connections = [processor.connections for processor in server.processors]
    await until(lambda: any(one.is_paused_reading for some in connections for one in some))
    for advance_ms in (600, 600):
        for processor in server.processors:
            processor.sweep()
        assert server.limits.total == 1
        ports.clock.advance(advance_ms)
    for processor in server.processors:
        processor.sweep()
    assert await is_closed(reader)


async def test_new_connections_go_round_robin_to_the_processors(ports: Ports) -> None:
    server = ports.serve(echo, network_threads=3)
    for _ in range(6):
        await ports.connect(server)
    await until(lambda: server.limits.total == 6)
    assert [len(p.connections) for p in server.processors] == [2, 2, 2]


async def test_more_slots_take_effect_at_once(ports: Ports) -> None:
    gate = asyncio.Event()
    started = 0

    def slow(_: Any, frame: memoryview) -> Awaitable[list[bytes]]:
        nonlocal started
        started += 1

        async def work() -> list[bytes]:
            await gate.wait()
            return [b"done"]

        return work()

    server = ports.serve(slow, io_threads=1)
    connections = [await ports.connect(server) for _ in range(3)]
    for _, writer in connections:
        writer.write(framed(b"x"))
    await until(lambda: server.channel.queue_size == 2)
    server.channel.resize(3)
    assert started == 3
    gate.set()
    for reader, _ in connections:
        assert await read_frame(reader) == b"done"


async def test_the_time_of_requests_sent_at_once_counts_whole(ports: Ports) -> None:
    def takes_long(_: Any, frame: memoryview) -> bytes:
        ports.clock.advance(1)
        return b"late"

    server = ports.serve(takes_long)
    reader, writer = await ports.connect(server)
    server.channel.idle_share()
    ports.clock.advance(600)
    writer.write(framed(b"x") * 400)
    for _ in range(400):
        assert await read_frame(reader) == b"late"
    assert server.channel.idle_share() == pytest.approx(0.6)


async def test_who_is_sent_the_rest_at_the_end_of_the_turn_goes_on(ports: Ports) -> None:
    """The answer blocks its socket, and the peer reads it while another is served."""
    size_bytes = SENT_AT_ONCE_BYTES + 200_000
    taken = bytearray()

    def handler(_: Any, frame: memoryview) -> Any:
        if frame == b"large":
            return [Zeros(size_bytes, size_bytes)]
        if frame == b"read":
            taken.extend(_read_what_is_there(client))
        return bytes(frame)

    server = ports.serve(handler)
    _, other = await ports.connect(server)
    with socket.create_connection(("127.0.0.1", server.port("PLAINTEXT"))) as client:
        await until(lambda: server.limits.total == 2)
        client.sendall(framed(b"large") + framed(b"next"))
        other.write(framed(b"read"))
        await until(lambda: len(taken) > 0)
        client.setblocking(False)
        expected = framed(bytes(size_bytes)) + framed(b"next")
        async with asyncio.timeout(10):
            while len(taken) < len(expected):
                taken += await asyncio.get_running_loop().sock_recv(client, 1 << 20)
        assert taken == expected


def _read_what_is_there(client: socket.socket) -> bytes:
    client.settimeout(0.1)
    taken = bytearray()
    with contextlib.suppress(TimeoutError):
        while True:
            taken += client.recv(1 << 20)
    return bytes(taken)


async def test_requests_are_not_taken_up_while_the_peer_takes_no_answers(ports: Ports) -> None:
    handled = 0

    def large(_: Any, frame: memoryview) -> bytes:
        nonlocal handled
        handled += 1
        return bytes(20_000_000)

    server = ports.serve(large)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    await until(lambda: any(c._is_blocked for p in server.processors for c in p.connections))
    for _ in range(5):
        writer.write(framed(b"x"))
        await asyncio.sleep(0.01)
    assert handled == 1
    for _ in range(6):
        assert len(await read_frame(reader)) == 20_000_000
    assert handled == 6


async def test_requests_that_came_before_the_peer_left_are_done(ports: Ports) -> None:
    handled = 0

    def silent(_: Any, frame: memoryview) -> None:
        nonlocal handled
        handled += 1

    server = ports.serve(silent)
    _, writer = await ports.connect(server)
    await until(lambda: server.limits.total == 1)
    writer.write(framed(b"x") * 400 + framed(b"not whole")[:-1])
    writer.close()
    await until(lambda: server.limits.total == 0)
    assert handled == 400


async def test_requests_behind_slow_work_are_done_when_the_peer_has_left(ports: Ports) -> None:
    gate = asyncio.Event()
    handled: list[bytes] = []

    def handler(_: Any, frame: memoryview) -> Any:
        handled.append(bytes(frame))

        async def work() -> bytes:
            await gate.wait()
            return b"done"

        return work() if frame == b"slow" else None

    server = ports.serve(handler)
    _, writer = await ports.connect(server)
    writer.write(framed(b"slow") + framed(b"silent"))
    writer.close()
    await until(lambda: handled == [b"slow"])
    await asyncio.sleep(0.01)
    gate.set()
    await until(lambda: server.limits.total == 0)
    assert handled == [b"slow", b"silent"]


async def test_a_request_that_waits_after_it_found_no_room_is_given_up_with_its_peer(
    ports: Ports,
) -> None:
    gate = asyncio.Event()
    waiting: Promise[bytes] = Promise()
    given_up: list[bool] = []
    waiting.on_abandoned = lambda: given_up.append(True)

    def handler(_: Any, frame: memoryview) -> Any:
        async def work() -> bytes:
            await gate.wait()
            return b"done"

        return work() if frame == b"work" else Parked(waiting, lambda body: body)

    server = ports.serve(handler, io_threads=1, queued_max_requests=1)
    connections = [await ports.connect(server) for _ in range(3)]
    for number, (body, (_, writer)) in enumerate(
        zip((b"work", b"work", b"wait"), connections, strict=True), start=1
    ):
        writer.write(framed(body))
        await until(lambda n=number: sum(p.responses_under_way for p in server.processors) == n)
    gate.set()
    for reader, _ in connections[:2]:
        assert await read_frame(reader) == b"done"
    connections[2][1].close()
    await until(lambda: server.limits.total == 2)
    assert given_up == [True]


async def test_a_connection_that_the_system_cannot_watch_is_closed(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    server = ports.serve(echo)
    with monkeypatch.context() as patched:
        patched.setattr(Poller, "watch_reading", refuse)
        reader, _ = await ports.connect(server)
        assert await is_closed(reader)
    assert server.limits.total == 0
    reader, writer = await ports.connect(server)
    writer.write(framed(b"x"))
    assert await read_frame(reader) == b"x"


class Defective:
    """A large slice whose file nobody can read, for a reason that nobody thought of."""

    def __len__(self) -> int:
        return 100_000

    def read(self, start: int, size: int) -> bytes:
        raise ValueError("a defect")

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        return 0


async def test_a_defect_in_sending_ends_only_its_own_connection(ports: Ports) -> None:
    server = ports.serve(lambda _, frame: [Defective()] if frame == b"bad" else bytes(frame))
    bad, good = await ports.connect(server), await ports.connect(server)
    await until(lambda: server.limits.total == 2)
    bad[1].write(framed(b"bad"))
    good[1].write(framed(b"good"))
    assert await read_frame(good[0]) == b"good"
    with pytest.raises(asyncio.IncompleteReadError):
        await read_frame(bad[0])
    await until(lambda: server.limits.total == 1)


async def test_a_defect_in_a_later_turn_of_a_connection_ends_it(ports: Ports) -> None:
    def handler(_: Any, frame: memoryview) -> Any:
        return [None] if frame == b"bad" else bytes(frame)

    reader, writer = await ports.connect(ports.serve(handler))
    writer.write(framed(b"x") * len(FRAMES_OF_A_TURN) + framed(b"bad"))
    for _ in FRAMES_OF_A_TURN:
        assert await read_frame(reader) == b"x"
    assert await is_closed(reader)


class Unreadable:
    """A small piece of a file on a disk that fails, or whose file a thread has closed."""

    def __init__(self, problem: OSError | None) -> None:
        self.problem = problem

    def __len__(self) -> int:
        return 100

    def read(self, start: int, size: int) -> bytes:
        if self.problem is None:
            return b"cut"
        raise self.problem

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        return 0


EIO = OSError(errno.EIO, "Input/output error")


async def test_after_a_long_poll_an_unreadable_answer_ends_the_connection(ports: Ports) -> None:
    """The second request is taken up by `_go_on`: nobody supervises it."""
    waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def handler(_: Any, frame: memoryview) -> Any:
        if frame[0] == 0:
            return Parked(waiting, lambda body: [body])
        return [Unreadable(EIO)]

    server = ports.serve(handler)
    reader, writer = await ports.connect(server)
    writer.write(framed(b"\x00") + framed(b"\x01"))
    await until(lambda: any(p.responses_under_way for p in server.processors))
    waiting.set_result(b"first")
    assert await read_frame(reader) == b"first"
    async with asyncio.timeout(3):
        assert await is_closed(reader)


async def test_in_the_first_turn_an_unreadable_answer_ends_the_connection(ports: Ports) -> None:
    server = ports.serve(lambda _, frame: [Unreadable(EIO)])
    reader, writer = await ports.connect(server)
    writer.write(framed(b"\x01"))
    async with asyncio.timeout(3):
        assert await is_closed(reader)


@pytest.mark.parametrize("problem", [None, EIO])
async def test_answers_given_before_an_unreadable_one_of_the_same_turn_arrive(
    ports: Ports, problem: OSError | None
) -> None:
    def handler(_: Any, frame: memoryview) -> Any:
        return [Unreadable(problem)] if frame[0] == 0 else bytes(frame)

    reader, writer = await ports.connect(ports.serve(handler))
    writer.write(framed(b"\x01") + framed(b"\x02") + framed(b"\x00"))
    assert [await read_frame(reader) for _ in range(2)] == [b"\x01", b"\x02"]
    async with asyncio.timeout(3):
        assert await is_closed(reader)


async def test_an_unreadable_answer_does_not_keep_the_others_out_of_the_channel(
    ports: Ports,
) -> None:
    gate = asyncio.Event()
    begun: list[int] = []

    def handler(_: Any, frame: memoryview) -> Any:
        if frame[0] == 9:
            return [Unreadable(EIO)]
        if frame[0] == 8:
            return b"at once"

        async def work() -> bytes:
            begun.append(1)
            await gate.wait()
            return b"done"

        return work()

    server = ports.serve(handler, io_threads=1, queued_max_requests=1)
    slow = [await ports.connect(server) for _ in range(2)]
    for _, writer in slow:
        writer.write(framed(b"\x01"))
        await writer.drain()
    await until(lambda: server.channel.queue_size == 1)
    bad, good = await ports.connect(server), await ports.connect(server)
    bad[1].write(framed(b"\x09"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 3)
    good[1].write(framed(b"\x08"))
    await until(lambda: sum(p.responses_under_way for p in server.processors) == 4)
    gate.set()
    async with asyncio.timeout(3):
        assert await read_frame(good[0]) == b"at once"
        assert await is_closed(bad[0])


async def test_a_request_without_memory_ends_only_its_own_connection(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(frames: FrameBuffer, size_bytes: int) -> None:
        raise MemoryError

    server = ports.serve(echo)
    small, large = await ports.connect(server), await ports.connect(server)
    small[1].write(framed(b"before"))
    assert await read_frame(small[0]) == b"before"
    await until(lambda: sum(len(p.connections) for p in server.processors) == 2)
    monkeypatch.setattr(FrameBuffer, "_allocate", refuse)
    large[1].write(framed(bytes(INITIAL_BYTES)))
    assert await is_closed(large[0])
    small[1].write(framed(b"after"))
    assert await read_frame(small[0]) == b"after"
