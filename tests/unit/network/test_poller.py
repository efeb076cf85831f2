"""Connections are served when something comes, and answered when all of a turn have been served."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from floodmark.network.poller import ANSWERED_AT_ONCE, Poller


class Polled:
    """A connection that writes down what it is told, and answers whatever comes."""

    def __init__(self, poller: Poller, told: list[str]) -> None:
        self._ours, self.theirs = socket.socketpair()
        self.poller = poller
        self._told = told
        self.on_receive: Callable[[], object] = lambda: None
        self.on_send: Callable[[], None] = lambda: None
        self.on_going_on: Callable[[], None] = lambda: None
        poller.watch_reading(self.number, self)

    @property
    def number(self) -> int:
        return self._ours.fileno()

    def receive(self) -> None:
        self._told.append("receive")
        self._ours.recv(100)
        self.on_receive()
        self.poller.answered.append(self)

    def go_on(self) -> None:
        self._told.append("go on")
        self.on_going_on()
        self.poller.answered.append(self)

    def send(self) -> None:
        self.on_send()
        self._told.append("send")

    def send_rest(self) -> None:
        self._told.append("send rest")
        self.poller.ignore_writing(self.number)

    def abort(self, reason: str) -> None:
        self._told.append("abort")
        self.end()

    def end(self) -> None:
        if self.number >= 0:
            self.poller.forget(self.number, self)
        self._ours.close()
        self.theirs.close()


class Polls:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.poller = Poller(loop)
        self.told: list[str] = []
        self.connections: list[Polled] = []

    def connect(self, count: int) -> list[Polled]:
        self.connections += [Polled(self.poller, self.told) for _ in range(count)]
        return self.connections[-count:]

    async def settled(self) -> list[str]:
        """What was told until nothing more happened."""
        for _ in range(5):
            await asyncio.sleep(0)
        told, self.told[:] = list(self.told), []
        return told


@pytest.fixture
async def polls() -> AsyncIterator[Polls]:
    polls = Polls(asyncio.get_running_loop())
    yield polls
    for connection in polls.connections:
        connection.end()


async def test_answers_wait_for_the_other_requests_of_their_turn(polls: Polls) -> None:
    for connection in polls.connect(3):
        connection.theirs.send(b"x")
    assert await polls.settled() == ["receive"] * 3 + ["send"] * 3
    assert await polls.settled() == []


async def test_who_is_served_alone_is_answered_at_once(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    connection.theirs.send(b"x")
    assert await polls.settled() == ["receive", "send"]
    connection.on_receive = lambda: asyncio.get_running_loop().call_soon(polls.told.append, "later")
    connection.theirs.send(b"x")
    assert await polls.settled() == ["receive", "send", "later"]


async def test_nobody_waits_for_the_requests_of_many_others(polls: Polls) -> None:
    for connection in polls.connect(ANSWERED_AT_ONCE + 2):
        connection.theirs.send(b"x")
    told = await polls.settled()
    assert told.index("send") == ANSWERED_AT_ONCE
    assert told.count("send") == ANSWERED_AT_ONCE + 2


async def test_a_connection_that_was_closed_in_the_same_turn_gets_none(polls: Polls) -> None:
    first, second = polls.connect(2)
    first.on_receive = second.end
    second.on_receive = first.end
    for connection in (first, second):
        connection.theirs.send(b"x")
    assert (await polls.settled()).count("receive") == 1


def fail() -> None:
    raise ValueError("a defect")


@pytest.mark.parametrize("where", ["on_receive", "on_send", "on_going_on"])
async def test_a_connection_that_fails_is_ended_and_the_others_are_answered(
    polls: Polls, where: str
) -> None:
    connections = polls.connect(3)
    setattr(connections[1], where, fail)
    for connection in connections:
        if where == "on_going_on":
            polls.poller.go_on_soon(connection)
        else:
            connection.theirs.send(b"x")
    told = await polls.settled()
    assert (told.count("abort"), told.count("send")) == (1, 2)


async def test_who_goes_on_waits_for_nothing_to_come(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    polls.poller.go_on_soon(connection)
    assert polls.told == [], "not from here: who answered may be in another's request"
    assert await polls.settled() == ["go on", "send"]


async def test_who_takes_answers_again_is_sent_the_rest(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    polls.poller.ignore_reading(connection.number)
    polls.poller.watch_writing(connection.number, connection)
    connection.theirs.send(b"not asked for")
    assert await polls.settled() == ["send rest"]
