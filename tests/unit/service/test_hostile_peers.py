"""Consumers that mean harm: what they send costs little, and others go on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

import floodmark.service.server as any_server
from floodmark.service import method
from floodmark.service.dubbo.connection import TURN_BYTES, Connection
from floodmark.service.dubbo.frames import (
    EVENT,
    HEADER,
    HEADER_BYTES,
    HESSIAN2,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    REQUEST,
    TWO_WAY,
    Status,
    frame,
)
from floodmark.service.dubbo.server import DubboServer
from floodmark.service.hessian import Encoder, JavaObject
from floodmark.service.hessian.limits import MAX_KNOWN_SHAPES
from floodmark.service.interface import interface_of
from floodmark.service.invoker import Invoker
from floodmark.service.types import BigInteger
from floodmark.service.url import URL
from kit.waiting import eventually

INTERFACE = "dev.floodmark.Target"
LARGE = 100_000
PRIME = (1 << 61) - 1
"""What Python's hash of a number is the rest of."""
ENOUGH_SECONDS = 10.0
"""Without bounds these take minutes or all memory."""


@dataclass
class Node:
    name: str = ""
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    x: BigInteger


class Target:
    def __init__(self) -> None:
        self.calls = 0

    @method(inline=True)
    def large(self) -> bytes:
        self.calls += 1
        return bytes(LARGE)

    @method(inline=True)
    def lists(self, value: list[list[list[int]]]) -> int:
        return len(value)

    @method(inline=True)
    def prices(self, value: dict[Decimal, int]) -> int:
        return len(value)

    @method(inline=True)
    def amounts(self, value: set[Decimal]) -> int:
        return len(value)

    @method(inline=True)
    def owners(self, value: dict[UUID, int]) -> int:
        return len(value)

    @method(inline=True)
    def points(self, value: Any) -> int:
        """With the class Point known from `point`."""
        return len(value)

    @method(inline=True)
    def point(self, value: Point) -> int:
        return value.x

    @method(inline=True)
    def tree(self, value: Node) -> str:
        return value.name

    @method(inline=True)
    def ratio(self, value: float) -> float:
        return value


class Peers:
    """A server, and raw connections to it."""

    def __init__(self, server: DubboServer, target: Target) -> None:
        self.server = server
        self.target = target
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await self.server.stop()


@pytest_asyncio.fixture
async def peers() -> AsyncIterator[Peers]:
    server = DubboServer("127.0.0.1", 0, heartbeat_seconds=60)
    await server.start()
    target = Target()
    url = URL("dubbo", "127.0.0.1", server.port, INTERFACE, {"interface": INTERFACE})
    server.add(Invoker(target, interface_of(Target, INTERFACE), url))
    running = Peers(server, target)
    yield running
    await running.close()


def request(name: str, descriptor: str = "", arguments: bytes = b"", number: int = 1) -> bytes:
    encoder = Encoder()
    for text in ("2.0.2", INTERFACE, "", name, descriptor):
        encoder.write_text(text)
    return frame(REQUEST | TWO_WAY | HESSIAN2, 0, number, encoder.take() + arguments + b"N")


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body."""
    _, _, status, _, size = HEADER.unpack(await reader.readexactly(HEADER_BYTES))
    return status, await reader.readexactly(size)


def number(value: int) -> bytes:
    encoder = Encoder()
    encoder.write_int(value)
    return encoder.take()


def list_of(size: int, items: bytes) -> bytes:
    return b"\x58" + number(size) + items


def many_references() -> bytes:
    """A list of 100,000 numbers, and 100,000 times that list again: ten thousand million."""
    inner = list_of(LARGE, b"\x91" * LARGE)
    return list_of(1, list_of(LARGE + 1, inner + (b"\x51" + number(2)) * LARGE))


def doubling() -> bytes:
    """Each list has the one before it twice: 2 to the power of 60. The outer one has number 0."""
    lists = [list_of(2, (b"\x51" + number(index)) * 2) for index in range(1, 61)]
    return list_of(61, b"".join([b"\x78", *lists]))


def self_containing() -> bytes:
    return list_of(1000, (b"\x51" + number(0)) * 1000)


def cyclic_map() -> bytes:
    """A Node as generic calls send it, whose child is itself."""
    return b"\x48" + b"\x08children" + list_of(1, b"\x51" + number(0)) + b"\x5a"


def colliding(count: int, *, as_map: bool) -> bytes:
    definition = b"\x43" + b"\x14java.math.BigDecimal" + b"\x91" + b"\x05value"
    items = []
    for factor in range(1, count + 1):
        encoder = Encoder()
        encoder.write_text(str(factor * PRIME))
        items.append(b"\x60" + encoder.take() + (b"\x91" if as_map else b""))
    items[0] = definition + items[0]
    if as_map:
        return b"\x48" + b"".join(items) + b"\x5a"
    return list_of(count, b"".join(items))


def colliding_objects(make: Callable[[int], object]) -> bytes:
    """Keys of a map whose numbers have the same remainder."""
    encoder = Encoder(interface_of(Target, INTERFACE).classes)
    for factor in range(1, LARGE // 4):
        encoder.write(make(factor * PRIME))
        encoder.write_int(1)
    return b"\x48" + encoder.take() + b"\x5a"


def colliding_texts() -> bytes:
    """Texts do not collide before they become numbers."""
    encoder = Encoder()
    encoder.write_map({str(factor * PRIME): 1 for factor in range(1, LARGE)})
    return encoder.take()


LIST, MAP, SET = "Ljava/util/List;", "Ljava/util/Map;", "Ljava/util/Set;"
HOSTILE: list[tuple[str, str, Callable[[], bytes]]] = [
    ("lists", LIST, many_references),
    ("lists", LIST, doubling),
    ("lists", LIST, self_containing),
    ("tree", "Ldev/floodmark/Node;", cyclic_map),
    ("tree", "Ldev/floodmark/Node;", lambda: b"\x79" * 100_000 + b"\x91"),
    ("prices", MAP, lambda: colliding(LARGE, as_map=True)),
    ("prices", MAP, colliding_texts),
    ("prices", MAP, lambda: b"\x48\x03abc\x91\x5a"),
    ("amounts", SET, lambda: colliding(LARGE, as_map=False)),
    ("owners", MAP, lambda: colliding_objects(lambda number: UUID(int=number))),
    ("points", "Ljava/lang/Object;", lambda: colliding_objects(Point)),
    ("ratio", "D", lambda: big_integer(10**400)),
]


def big_integer(value: int) -> bytes:
    encoder = Encoder()
    encoder.write_big_integer(value)
    return encoder.take()


@pytest.mark.parametrize(("name", "descriptor", "build"), HOSTILE)
async def test_an_expensive_argument_is_refused_and_the_connection_goes_on(
    peers: Peers, name: str, descriptor: str, build: Callable[[], bytes]
) -> None:
    reader, writer = await peers.connect()
    data = request(name, descriptor, build())
    assert len(data) < MAX_PAYLOAD_BYTES
    began = time.monotonic()
    writer.write(data)
    status, body = await answer(reader)
    assert status == Status.BAD_REQUEST, body[:200]
    assert time.monotonic() - began < ENOUGH_SECONDS
    writer.write(request("ratio", "D", b"\x5c"))
    assert (await answer(reader))[0] == Status.OK


async def test_maps_with_many_different_uuids_are_taken(peers: Peers) -> None:
    encoder = Encoder()
    encoder.write_map({UUID(int=number << 64): number for number in range(10_000)})
    reader, writer = await peers.connect()
    writer.write(request("owners", MAP, encoder.take()))
    assert (await answer(reader))[0] == Status.OK


async def test_unknown_interfaces_do_not_hide_the_classes_of_known_ones(peers: Peers) -> None:
    reader, writer = await peers.connect()
    for number in range(5):
        encoder = Encoder()
        for text in ("2.0.2", f"dev.Unknown{number}", "", "hello", "Ljava/lang/String;", "x"):
            encoder.write_text(text)
        writer.write(frame(REQUEST | TWO_WAY | HESSIAN2, 0, 1, encoder.take() + b"N"))
        assert (await answer(reader))[0] == Status.SERVICE_ERROR
    encoder = Encoder(interface_of(Target, INTERFACE).classes)
    encoder.write(Node("root"))
    writer.write(request("tree", "Ldev/floodmark/Node;", encoder.take()))
    status, body = await answer(reader)
    assert status == Status.OK and b"root" in body


async def test_long_names_are_not_kept(peers: Peers, caplog: pytest.LogCaptureFixture) -> None:
    """Neither those of methods nor those of fields: both may have megabytes."""
    reader, writer = await peers.connect()
    for number in range(40):
        fields = {f"{number}{'x' * LARGE}": 1}
        encoder = Encoder()
        encoder.write(JavaObject("dev.floodmark.Node", fields))
        writer.write(request(f"{number}{'y' * LARGE}", "Ldev/floodmark/Node;", encoder.take()))
        assert (await answer(reader))[0] == Status.BAD_REQUEST
    (connection,) = peers.server.connections
    assert isinstance(connection, Connection)
    assert not connection._requests._prefixes
    (invoker,) = peers.server._invokers.values()
    assert not invoker.classes._shapes
    assert max(map(len, caplog.messages)) < 1_000


async def test_a_class_with_ever_new_fields_takes_bounded_memory(peers: Peers) -> None:
    classes = interface_of(Target, INTERFACE).classes
    for number in range(2 * MAX_KNOWN_SHAPES):
        classes.shape("dev.floodmark.Node", (f"field{number}",))
    assert len(classes._shapes) <= MAX_KNOWN_SHAPES
    assert classes.shape("dev.floodmark.Node", ("name",)) is classes.shape(
        "dev.floodmark.Node", ("name",)
    ), "what is used is still cached"


async def test_a_consumer_that_does_not_read_gets_few_answers_until_it_does(peers: Peers) -> None:
    """4,000 requests of a hundred bytes would make 400 MB of answers."""
    reader, writer = await peers.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    count = 4_000
    writer.write(b"".join(request("large", number=n) for n in range(count)))
    await eventually(lambda: peers.target.calls > 0)
    served = -1
    while served != peers.target.calls:
        served = peers.target.calls
        await asyncio.sleep(0.2)
    # What a turn may make, and what the kernel's buffers take.
    assert served * LARGE < 16 * TURN_BYTES, served
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(count):
        assert (await answer(reader))[0] == Status.OK
    assert peers.target.calls == count


async def test_unfinished_requests_of_all_consumers_are_bounded(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_server, "MAX_BUFFERED_BYTES", 1_000_000)
    half = HEADER.pack(MAGIC, REQUEST | HESSIAN2, 0, 1, MAX_PAYLOAD_BYTES) + bytes(400_000)
    opened = [await peers.connect() for _ in range(10)]
    for _, writer in opened:
        writer.write(half)
    await eventually(lambda: len(peers.server.connections) < 5)
    assert peers.server.buffered_bytes <= 1_000_000
    reader, writer = await peers.connect()
    writer.write(request("ratio", "D", b"\x5c"))
    assert (await answer(reader))[0] == Status.OK
    for _, writer in opened:
        writer.transport.abort()
    await eventually(lambda: not peers.server.buffered_bytes)


async def test_a_request_that_never_ends_ends_its_connection() -> None:
    server = DubboServer("127.0.0.1", 0, heartbeat_seconds=0.1)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEADER.pack(MAGIC, REQUEST | HESSIAN2, 0, 1, 1000))
        ended = asyncio.create_task(reader.read())
        for _ in range(500):
            writer.write(b"x")  # a byte at a time: never silent for long
            if (await asyncio.wait([ended], timeout=0.02))[0]:
                break
        assert ended.done()
        writer.close()
    finally:
        await server.stop()


async def test_requests_that_follow_each_other_without_a_gap_are_no_endless_one() -> None:
    """A busy consumer: whenever something arrives, the next request has begun."""
    server = DubboServer("127.0.0.1", 0, heartbeat_seconds=0.1)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        beat = frame(REQUEST | TWO_WAY | EVENT | HESSIAN2, 0, 1, b"N")
        writer.write(beat[:5])
        for _ in range(30):
            await asyncio.sleep(0.02)
            writer.write(beat[5:] + beat[:5])
            assert (await answer(reader))[0] == Status.OK
        writer.transport.abort()
    finally:
        await server.stop()


class NeverRead:
    """A consumer that asks for more than the buffers between us hold, and reads none of it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for number in range(4_000):
                self.socket.sendall(request("large", number=number))


async def test_a_consumer_that_never_reads_is_closed() -> None:
    server = DubboServer("127.0.0.1", 0, heartbeat_seconds=0.1)
    await server.start()
    url = URL("dubbo", "127.0.0.1", server.port, INTERFACE, {"interface": INTERFACE})
    server.add(Invoker(Target(), interface_of(Target, INTERFACE), url))
    never = NeverRead(server.port)
    try:
        await eventually(lambda: len(server.connections) == 1)
        await eventually(lambda: not server.connections)
    finally:
        never.socket.close()
        await server.stop()


async def test_a_consumer_that_never_reads_does_not_keep_a_provider_from_stopping(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_server, "LAST_WORDS_SECONDS", 0.2)
    never = NeverRead(peers.server.port)
    try:
        await eventually(lambda: peers.target.calls > 0)
        await asyncio.wait_for(peers.server.stop(), 15)
        await eventually(lambda: not peers.server.connections)
    finally:
        never.socket.close()


async def test_a_thousand_idle_connections_leave_room_for_a_call(peers: Peers) -> None:
    for _ in range(1_000):
        await peers.connect()
    reader, writer = await peers.connect()
    writer.write(request("ratio", "D", b"\x5c"))
    assert (await answer(reader))[0] == Status.OK
    assert len(peers.server.connections) == 1_001
