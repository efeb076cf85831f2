"""Connections are answered together, when the requests of one turn of the loop are done."""

import asyncio
from typing import Any, cast

from floodmark.network.processor import ANSWERED_AT_ONCE, Processor
from floodmark.testing.virtual_clock import VirtualClock


class Answered:
    """A connection that counts what it is told to send."""

    def __init__(self) -> None:
        self.times_sent = 0

    def send_outbox(self) -> None:
        self.times_sent += 1


def new_processor() -> Processor:
    channel = cast("Any", None)  # nothing is submitted here
    return Processor(0, channel, VirtualClock(), max_frame_bytes=100, max_idle_ms=1000)


async def test_answers_wait_for_the_other_requests_of_their_turn() -> None:
    processor = new_processor()
    connections = [Answered() for _ in range(3)]
    for connection in connections:
        processor.send_soon(cast("Any", connection))
    assert [connection.times_sent for connection in connections] == [0, 0, 0]
    await asyncio.sleep(0)
    assert [connection.times_sent for connection in connections] == [1, 1, 1]


async def test_a_connection_that_is_served_alone_is_answered_at_once() -> None:
    processor = new_processor()
    connection = Answered()
    processor.send_soon(cast("Any", connection))
    await asyncio.sleep(0)
    processor.send_soon(cast("Any", connection))
    assert connection.times_sent == 2


async def test_nobody_waits_for_the_requests_of_many_others() -> None:
    processor = new_processor()
    connections = [Answered() for _ in range(ANSWERED_AT_ONCE)]
    for connection in connections:
        processor.send_soon(cast("Any", connection))
    assert all(connection.times_sent == 1 for connection in connections)
    await asyncio.sleep(0)
    assert all(connection.times_sent == 1 for connection in connections)
