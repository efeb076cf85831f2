"""The loads: loops over raw connections that do as little as they can beside sending and reading.

They share two cores with the broker, so frames are made before and only patched in the loop.
"""

import select
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import wire
from batches import BATCH_HEADER_BYTES, offsets_in, patch_sequence

_IN_FLIGHT = 5  # as max.in.flight.requests.per.connection of a producer


def check_produced(answer: bytes) -> None:
    error_code, _ = wire.produced(answer)
    if error_code:
        raise wire.Refused(f"produce answered error {error_code}")


def settle(connection: wire.Connection, frame: wire.Frame) -> None:
    """Send one frame until it is accepted: a new topic's leader may take a moment to know it."""
    while True:
        error_code, _ = wire.produced(connection.call(frame.data))
        if error_code == wire.NO_ERROR:
            return
        if error_code not in wire.RETRIABLE:
            raise wire.Refused(f"produce answered error {error_code}")


def pipelined(
    connections: list[wire.Connection],
    frames: list[wire.Frame],
    requests_each: int,
    before_send: Callable[[wire.Frame, int], None] | None = None,
) -> None:
    """Every connection sends its own frame `requests_each` times with five of them in flight."""
    pairs = list(zip(connections, frames, strict=True))
    for number in range(requests_each + _IN_FLIGHT):
        for connection, frame in pairs:
            if number >= _IN_FLIGHT:
                check_produced(connection.receive())
            if number < requests_each:
                if before_send is not None:
                    before_send(frame, number)
                connection.send(frame.data)


def sequence_patcher(records: int, first_number: int) -> Callable[[wire.Frame, int], None]:
    """Gives each repeat of a batch the sequences that follow those of the one before."""

    def patch(frame: wire.Frame, number: int) -> None:
        batch = memoryview(frame.data)[frame.patch_at : -3]
        patch_sequence(batch, (first_number + number) * records)

    return patch


def synchronous(
    connections: list[wire.Connection], frames: list[wire.Frame], requests: int
) -> list[float]:
    """One request in flight per connection, `requests` in all; returns latencies in seconds."""
    poller = select.epoll()
    by_number = {}
    for connection, frame in zip(connections, frames, strict=True):
        number = connection.socket.fileno()
        by_number[number] = (connection, frame.data)
        poller.register(number, select.EPOLLIN)
    sent_at: dict[int, float] = {}
    for number, (connection, data) in by_number.items():
        sent_at[number] = time.perf_counter()
        connection.send(data)
    latencies: list[float] = []
    left = requests - len(connections)
    while sent_at:
        for number, _ in poller.poll():
            connection, data = by_number[number]
            answer = connection.receive()
            now = time.perf_counter()
            latencies.append(now - sent_at.pop(number))
            check_produced(answer)
            if left > 0:
                left -= 1
                sent_at[number] = now
                connection.send(data)
    poller.close()
    return latencies


def fetch_pass(connection: wire.Connection, frame: wire.Frame, end_offset: int) -> None:
    """Read the partition from its first offset to `end_offset`."""
    offset = 0
    while offset < end_offset:
        struct.pack_into(">q", frame.data, frame.patch_at, offset)
        connection.send(frame.data)
        records = wire.fetched(connection.receive_large())
        first, end = offsets_in(records)
        if first != offset:
            raise wire.Refused(f"fetch at {offset} began at {first}")
        offset = end


@dataclass(frozen=True)
class Route:
    """A producer and a long-polling consumer of the same partition."""

    producer: wire.Connection
    produce: wire.Frame
    consumer: wire.Connection
    fetch: wire.Frame


def end_to_end(route: Route, first_offset: int, count: int, per_second: int) -> list[float]:
    """Send one record every 1/`per_second` s, whatever the answers; seconds until each is read.

    One thread waits for both sockets, so no hand-over between threads counts as latency.
    """
    producer, consumer = route.producer, route.consumer
    latencies: list[float] = []
    sent_at: list[float] = []
    answers, offset = 0, first_offset
    _fetch_at(consumer, route.fetch, offset)
    start = time.perf_counter()
    while answers < count or len(latencies) < count:
        wait_s = 1.0
        if len(sent_at) < count:
            wait_s = start + len(sent_at) / per_second - time.perf_counter()
            if wait_s <= 0:
                sent_at.append(time.perf_counter())
                producer.send(route.produce.data)
                continue
        # select and not epoll: its timeout has microseconds.
        readable, _, _ = select.select([consumer.socket, producer.socket], [], [], wait_s)
        if consumer.socket in readable:
            answer = consumer.receive_large()
            now = time.perf_counter()
            records = wire.fetched(answer)
            if len(records) >= BATCH_HEADER_BYTES:
                _, end = offsets_in(records)
                latencies += [now - sent_at[o - first_offset] for o in range(offset, end)]
                offset = end
            if len(latencies) < count:
                _fetch_at(consumer, route.fetch, offset)
        if producer.socket in readable:
            for produced in producer.receive_ready():
                check_produced(produced)
                answers += 1
    return latencies


def _fetch_at(connection: wire.Connection, frame: wire.Frame, offset: int) -> None:
    struct.pack_into(">q", frame.data, frame.patch_at, offset)
    connection.send(frame.data)
