"""Connections are served in turns, and answered when all requests of a turn are done."""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from floodmark.network.poller import CONNECTIONS_OF_A_TURN, WRITABLE, Poller
from floodmark.testing.virtual_clock import VirtualClock


class Polled:
    """A connection that writes down what it is told."""

    def __init__(self, poller: Poller, told: list[str]) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._poller = poller
        self._told = told
        self.on_receive: Callable[[], None] = lambda: None
        self.on_send: Callable[[], None] = lambda: None
        self.on_going_on: Callable[[], None] = lambda: None
        poller.add(self.number, self)

    @property
    def number(self) -> int:
        return self._ours.fileno()

    def receive(self) -> None:
        self._told.append("receive")
        self._ours.recv(100)
        self.on_receive()
        self._poller.answered.append(self)

    def go_on(self) -> None:
        self._told.append("go on")
        self.on_going_on()
        self._poller.answered.append(self)

    def send(self) -> None:
        self.on_send()
        self._told.append("send")

    def send_rest(self) -> None:
        self._told.append("send rest")

    def close(self) -> None:
        self._told.append("close")
        self.remove()

    def abort(self, reason: str) -> None:
        self._told.append("abort")
        self.remove()

    def remove(self) -> None:
        self._poller.remove(self.number)
        self._ours.close()

    def close_both(self) -> None:
        self._ours.close()
        self.theirs.close()


class Polls:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.turns_ms: list[float] = []
        self.poller = Poller(self.clock, self.turns_ms.append)
        self.told: list[str] = []
        self.connections: list[Polled] = []

    def connect(self, count: int) -> list[Polled]:
        self.connections += [Polled(self.poller, self.told) for _ in range(count)]
        return self.connections[-count:]

    def turn(self) -> list[str]:
        self.told.clear()
        self.poller.take_turn()
        return list(self.told)


@pytest.fixture
def polls() -> Iterator[Polls]:
    polls = Polls()
    yield polls
    for connection in polls.connections:
        connection.close_both()
    polls.poller.close()


def test_answers_wait_for_the_other_requests_of_their_turn(polls: Polls) -> None:
    for connection in polls.connect(3):
        connection.theirs.send(b"x")
    assert polls.turn() == ["receive"] * 3 + ["send"] * 3
    assert polls.turn() == []


def test_nobody_waits_for_the_requests_of_many_others(polls: Polls) -> None:
    for connection in polls.connect(CONNECTIONS_OF_A_TURN + 2):
        connection.theirs.send(b"x")
    assert polls.turn().count("receive") == CONNECTIONS_OF_A_TURN
    assert polls.turn() == ["receive"] * 2 + ["send"] * 2


def test_a_connection_that_was_closed_in_the_same_turn_gets_none(polls: Polls) -> None:
    first, second = polls.connect(2)
    first.on_receive = second.close
    second.on_receive = first.close
    for connection in (first, second):
        connection.theirs.send(b"x")
    told = polls.turn()
    assert told.count("receive") == told.count("close") == 1


def fail() -> None:
    raise ValueError("a defect")


@pytest.mark.parametrize("where", ["on_receive", "on_send", "on_going_on"])
def test_a_connection_that_fails_is_ended_and_the_others_are_answered(
    polls: Polls, where: str
) -> None:
    connections = polls.connect(3)
    setattr(connections[1], where, fail)
    for connection in connections:
        if where == "on_going_on":
            polls.poller.go_on_soon(connection)
        else:
            connection.theirs.send(b"x")
    told = polls.turn()
    assert (told.count("abort"), told.count("send")) == (1, 2)


def test_who_goes_on_is_served_first_and_answered_with_the_others(polls: Polls) -> None:
    going_on, other = polls.connect(2)
    other.theirs.send(b"x")
    polls.poller.go_on_soon(going_on)
    assert polls.turn() == ["go on", "receive", "send", "send"]
    assert polls.turn() == []


async def test_who_goes_on_waits_for_nobody(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    polls.poller.start()
    connection.on_going_on = lambda: polls.clock.advance(5)
    polls.poller.go_on_soon(connection)
    assert polls.told == []
    await asyncio.sleep(0)
    assert (polls.told, polls.turns_ms) == (["go on", "send"], [5])


def test_who_takes_answers_again_is_sent_the_rest(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    polls.poller.watch(connection.number, WRITABLE)
    connection.theirs.send(b"not asked for")
    assert polls.turn() == ["send rest"]


def test_a_broken_connection_is_noticed_where_nothing_is_read(polls: Polls) -> None:
    (connection,) = polls.connect(1)
    polls.poller.watch(connection.number, 0)
    connection.theirs.send(b"not asked for")
    assert polls.turn() == []
    connection.theirs.close()
    assert polls.turn() == ["close"]


def test_it_tells_how_long_a_turn_took(polls: Polls) -> None:
    for connection in polls.connect(2):
        connection.on_receive = lambda: polls.clock.advance(3)
        connection.theirs.send(b"x")
    polls.turn()
    assert polls.turns_ms == [6]
