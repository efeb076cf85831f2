"""Connections in memory, with handlers made for the test (SPEC N1 to N5)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from floodmark.network.transfer import PIECE_BYTES
from floodmark.promise import Promise
from kit.connections import MemoryServer, settled

Serve = Callable[..., MemoryServer]


def echo(_: Any, frame: memoryview) -> bytes:
    return bytes(frame)


class Gate:
    """A handler whose requests have a slot, and are answered with themselves when it opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.submitted: list[bytes] = []
        self.begun: list[bytes] = []

    def __call__(self, _: Any, frame: memoryview) -> Awaitable[bytes]:
        self.submitted.append(bytes(frame))
        return self._work(bytes(frame))

    async def _work(self, body: bytes) -> bytes:
        self.begun.append(body)
        await self.open.wait()
        return body


class Zeros:
    """A slice of a large file that remembers how much of it was read."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self.read_bytes = 0

    def __len__(self) -> int:
        return self._size_bytes

    def read(self, start: int, size: int) -> bytes:
        self.read_bytes += size
        return bytes(size)

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        raise AssertionError("there is no socket")

    def let_go(self) -> None:
        pass


# Order and muting


async def test_requests_sent_at_once_are_answered_in_their_order(serve: Serve) -> None:
    waiting: Promise[bytes] = Promise()

    def first_waits(_: Any, frame: memoryview) -> Any:
        if frame[0] == 0:
            return waiting.map(lambda body: [body])
        return [bytes(frame)]

    client = serve(first_waits).connect()
    client.request(b"\x00", b"\x01", b"\x02")
    await settled()
    assert client.take() == b""
    waiting.set(b"first")
    assert [await client.answer() for _ in range(3)] == [b"first", b"\x01", b"\x02"]


@pytest.mark.parametrize("size_bytes", [1, 100, 250, 252, 253, 1000])
async def test_a_turn_that_ends_with_a_full_buffer_goes_on(serve: Serve, size_bytes: int) -> None:
    client = serve(echo).connect()
    requests = [bytes([number % 256]) * size_bytes for number in range(1000)]
    client.request(*requests)
    assert [await client.answer() for _ in requests] == requests


async def test_a_connection_has_one_request_under_way_at_a_time(serve: Serve) -> None:
    gate = Gate()
    server = serve(gate)
    client = server.connect()
    client.request(b"0", b"1")
    await settled()
    assert gate.submitted == [b"0"]
    assert server.under_way == 1
    gate.open.set()
    assert [await client.answer() for _ in range(2)] == [b"0", b"1"]
    assert gate.submitted == [b"0", b"1"]


async def test_a_request_without_answer_lets_the_next_one_in(serve: Serve) -> None:
    client = serve(lambda _, frame: None if frame[0] == 0 else [bytes(frame)]).connect()
    client.request(b"\x00", b"\x01")
    assert await client.answer() == b"\x01"


async def test_a_request_whose_event_has_happened_already_is_answered_at_once(
    serve: Serve,
) -> None:
    def kept(_: Any, frame: memoryview) -> Any:
        promise: Promise[bytes] = Promise()
        promise.set(bytes(frame))
        return promise.map(lambda body: body)

    client = serve(kept).connect()
    client.request(b"0", b"1", b"2")
    assert [await client.answer() for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_frame_larger_than_any_buffer_arrives_whole(serve: Serve) -> None:
    client = serve(echo).connect()
    body = bytes(range(256)) * 4000
    for _ in range(2):
        client.request(body)
        assert await client.answer() == body


async def test_a_frame_that_comes_byte_by_byte_arrives_whole(serve: Serve) -> None:
    client = serve(echo).connect()
    for byte in b"\0\0\0\x06slowly":
        client.write(bytes([byte]))
        await settled()
    assert await client.answer() == b"slowly"


async def test_the_time_of_requests_sent_at_once_counts_whole(serve: Serve) -> None:
    def takes_long(_: Any, frame: memoryview) -> bytes:
        server.clock.advance(1)
        return b"late"

    server = serve(takes_long)
    client = server.connect()
    server.channel.idle_share()
    server.clock.advance(600)
    client.request(*[b"x"] * 400)
    for _ in range(400):
        assert await client.answer() == b"late"
    assert server.channel.idle_share() == pytest.approx(0.6)


# Slots and the queue


async def test_when_slots_and_queue_are_full_reading_stops_and_nothing_is_lost(
    serve: Serve,
) -> None:
    gate = Gate()
    server = serve(gate, slots=2, capacity=3)
    clients = [server.connect() for _ in range(10)]
    for number, client in enumerate(clients):
        client.request(bytes([number]))
    await settled()
    assert (len(gate.begun), server.channel.queue_size) == (2, 3)
    paused = [connection.is_paused for connection in server.processor.connections]
    assert (paused.count(True), server.under_way) == (5, 10)
    gate.open.set()
    for number, client in enumerate(clients):
        assert await client.answer() == bytes([number])


async def test_what_is_answered_at_once_does_not_wait_for_a_slot(serve: Serve) -> None:
    gate = Gate()
    server = serve(lambda peer, frame: gate(peer, frame) if frame == b"slow" else bytes(frame))
    server.channel.resize(1)
    slow = [server.connect() for _ in range(3)]
    for client in slow:
        client.request(b"slow")
    await settled()
    assert server.channel.queue_size == 2
    client = server.connect()
    client.request(b"quick")
    assert await client.answer() == b"quick"
    gate.open.set()
    for client in slow:
        assert await client.answer() == b"slow"


async def test_more_slots_take_effect_at_once(serve: Serve) -> None:
    gate = Gate()
    server = serve(gate, slots=1)
    clients = [server.connect() for _ in range(3)]
    for client in clients:
        client.request(b"x")
    await settled()
    assert (len(gate.begun), server.channel.queue_size) == (1, 2)
    server.channel.resize(3)
    assert server.channel.queue_size == 0
    gate.open.set()
    for client in clients:
        assert await client.answer() == b"x"


async def test_requests_behind_one_that_found_no_room_are_served(serve: Serve) -> None:
    gate = Gate()
    server = serve(
        lambda peer, frame: gate(peer, frame) if frame == b"slow" else bytes(frame),
        slots=1,
        capacity=1,
    )
    clients = [server.connect() for _ in range(3)]
    for client in clients[:2]:
        client.request(b"slow")
    clients[2].request(b"0", b"1")
    await settled()
    assert server.under_way == 3
    gate.open.set()
    assert [await clients[2].answer() for _ in range(2)] == [b"0", b"1"]
    clients[2].request(b"2")
    assert await clients[2].answer() == b"2"


# Peers that do not read


async def test_a_peer_that_takes_no_answers_is_not_read_from_for_ever(serve: Serve) -> None:
    answer = bytes(1_000_000)
    handled: list[bytes] = []

    def large(_: Any, frame: memoryview) -> list[bytes]:
        handled.append(bytes(frame))
        return [answer]

    client = serve(large).connect()
    client.request(*[b"x"] * 100)
    await settled()
    assert len(handled) == 1, "answers pile up in memory"
    for _ in range(100):
        assert len(await client.answer()) == len(answer)
    assert len(handled) == 100


async def test_what_a_peer_does_not_take_is_not_read_from_the_file(serve: Serve) -> None:
    size_bytes = 5 << 20
    records = Zeros(size_bytes)
    answers = iter([[b"head", records, b"end"], [b"next"]])
    server = serve(lambda _, frame: next(answers))
    client = server.connect()
    client.request(b"x", b"x")
    await settled()
    assert server.is_blocked
    assert records.read_bytes <= 2 * PIECE_BYTES
    assert await client.answer() == b"head" + bytes(size_bytes) + b"end"
    assert await client.answer() == b"next"


async def test_who_is_sent_the_rest_at_the_end_of_the_turn_goes_on(serve: Serve) -> None:
    """The answer blocks its port, and the peer reads it while another is served."""
    size_bytes = 200_000
    taken = bytearray()

    def handler(_: Any, frame: memoryview) -> Any:
        if frame == b"large":
            return bytes(size_bytes)
        if frame == b"read":
            taken.extend(client.take())
        return bytes(frame)

    server = serve(handler)
    client, other = server.connect(), server.connect()
    client.request(b"large", b"next")
    other.request(b"read")
    await settled()
    assert len(taken) > 0
    expected = size_bytes.to_bytes(4, "big") + bytes(size_bytes) + b"\0\0\0\x04next"
    taken += await client.read(len(expected) - len(taken))
    assert taken == expected


async def test_requests_are_not_taken_up_while_the_peer_takes_no_answers(serve: Serve) -> None:
    handled: list[bytes] = []

    def large(_: Any, frame: memoryview) -> bytes:
        handled.append(bytes(frame))
        return bytes(200_000)

    server = serve(large)
    client = server.connect()
    client.request(b"x")
    await settled()
    assert server.is_blocked
    for _ in range(5):
        client.request(b"x")
        await settled()
    assert len(handled) == 1
    for _ in range(6):
        assert len(await client.answer()) == 200_000
    assert len(handled) == 6


async def test_a_blocked_peer_whose_buffer_is_full_is_not_received_from(serve: Serve) -> None:
    server = serve(lambda _, frame: bytes(200_000) if frame == b"large" else bytes(frame))
    client = server.connect()
    client.request(b"large")
    await settled()
    client.request(*[b"x" * 1000] * 100)
    await settled()
    (connection,) = server.processor.connections
    assert connection.is_paused
    assert len(await client.answer()) == 200_000
    for _ in range(100):
        assert await client.answer() == b"x" * 1000
    assert not connection.is_paused


# Peers that leave


async def test_the_answer_for_a_peer_that_left_is_dropped(serve: Serve) -> None:
    waiting: Promise[bytes] = Promise()
    server = serve(lambda _, frame: waiting.map(lambda body: [body]))
    client = server.connect()
    client.request(b"x")
    await settled()
    assert server.under_way == 1
    client.reset()
    await settled()
    waiting.set(b"late")
    await settled()
    assert (server.connections, server.under_way) == (0, 0)


async def test_a_peer_that_left_while_its_request_waited_in_the_queue_is_survived(
    serve: Serve,
) -> None:
    gate = Gate()
    server = serve(gate, slots=1, capacity=1)
    stays, leaves, refused = [server.connect() for _ in range(3)]
    for number, client in enumerate((stays, leaves, refused), start=1):
        client.request(bytes([number]))
        await settled()
        assert server.under_way == number
    leaves.reset()
    refused.reset()
    await settled()
    assert server.connections == 2, "who is refused is not read from: its end is seen later"
    gate.open.set()
    assert await stays.answer() == b"\x01"
    stays.request(b"3")
    assert await stays.answer() == b"3"
    await settled()
    assert (server.connections, server.under_way) == (1, 0)


async def test_requests_that_came_before_the_peer_left_are_done(serve: Serve) -> None:
    handled: list[bytes] = []
    server = serve(lambda _, frame: handled.append(bytes(frame)))
    client = server.connect()
    client.request(*[b"x"] * 400)
    client.write(b"\0\0\0\x09not whol")
    client.end()
    assert await client.closed() == b""
    assert len(handled) == 400


async def test_a_peer_that_closed_its_sending_half_gets_its_answers(serve: Serve) -> None:
    client = serve(echo).connect()
    client.request(*[b"x"] * 40)
    client.end()
    assert await client.closed() == b"\0\0\0\x01x" * 40


async def test_requests_behind_slow_work_are_done_when_the_peer_has_left(serve: Serve) -> None:
    gate = Gate()
    handled: list[bytes] = []

    def handler(peer: Any, frame: memoryview) -> Any:
        handled.append(bytes(frame))
        return gate(peer, frame) if frame == b"slow" else None

    client = serve(handler).connect()
    client.request(b"slow", b"silent")
    client.end()
    await settled()
    assert handled == [b"slow"]
    gate.open.set()
    await client.closed()
    assert handled == [b"slow", b"silent"]


async def test_a_connection_closes_when_slow_work_was_the_last_before_the_peer_left(
    serve: Serve,
) -> None:
    gate = Gate()
    client = serve(gate).connect()
    client.request(b"0", b"1")
    client.end()
    await settled()
    gate.open.set()
    assert await client.closed() == b"\0\0\0\x010\0\0\0\x011"
    assert gate.submitted == [b"0", b"1"]


async def test_requests_behind_a_long_poll_are_dropped_with_it_when_the_peer_leaves(
    serve: Serve,
) -> None:
    waiting: Promise[bytes] = Promise()
    given_up: list[bool] = []
    waiting.on_abandoned = lambda: given_up.append(True)
    client = serve(lambda _, frame: waiting.map(lambda body: body)).connect()
    client.request(b"wait", b"next")
    client.end()
    await client.closed()
    await settled()
    assert given_up == [True]


async def test_a_peer_that_takes_no_answers_and_leaves_is_not_waited_for(serve: Serve) -> None:
    handled: list[bytes] = []

    def large(_: Any, frame: memoryview) -> bytes:
        handled.append(bytes(frame))
        return bytes(200_000)

    client = serve(large).connect()
    client.request(b"0", b"1")
    await settled()
    client.end()
    await client.closed()
    assert handled == [b"0"]


@pytest.mark.parametrize("finds_room", [True, False])
async def test_a_long_poll_is_abandoned_with_its_peer(serve: Serve, finds_room: bool) -> None:
    gate = Gate()
    waiting: Promise[bytes] = Promise()
    given_up: list[bool] = []
    waiting.on_abandoned = lambda: given_up.append(True)

    def handler(peer: Any, frame: memoryview) -> Any:
        return gate(peer, frame) if frame == b"work" else waiting.map(lambda body: body)

    server = serve(handler, slots=1, capacity=10 if finds_room else 1)
    clients = [server.connect() for _ in range(3)]
    for number, body in enumerate((b"work", b"work", b"wait")):
        clients[number].request(body)
        await settled()
    assert server.under_way == 3
    gate.open.set()
    for client in clients[:2]:
        assert await client.answer() == b"work"
    clients[2].end()
    await clients[2].closed()
    await settled()
    assert given_up == [True]


# Idle connections


async def test_idle_connections_are_closed_and_waiting_ones_are_not(serve: Serve) -> None:
    waiting: Promise[bytes] = Promise()
    server = serve(lambda _, frame: waiting.map(lambda body: [body]), max_idle_ms=1000)
    idle, busy = server.connect(), server.connect()
    busy.request(b"x")
    await settled()
    server.clock.advance(1001)
    server.processor.sweep()
    await idle.closed()
    waiting.set(b"late")
    assert await busy.answer() == b"late"


async def test_a_waiting_connection_that_cannot_be_seen_to_leave_is_closed_in_the_end(
    serve: Serve,
) -> None:
    waiting: Promise[bytes] = Promise()
    server = serve(lambda _, frame: waiting.map(lambda body: [body]), max_idle_ms=1000)
    client = server.connect()
    client.request(b"x")
    client.write(bytes(1 << 20))
    await settled()
    (connection,) = server.processor.connections
    assert connection.is_paused
    for advance_ms in (600, 600):
        server.processor.sweep()
        assert connection.state.is_open
        server.clock.advance(advance_ms)
    server.processor.sweep()
    await client.closed()
