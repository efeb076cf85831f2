"""Connections are served when something comes, and answered when all of a turn have been served."""

import asyncio
from collections.abc import Callable

import pytest

from floodmark.network.turns import ANSWERED_AT_ONCE, Turns
from kit.connections import settled


class Told:
    """A connection that writes down what it is told, and answers whatever comes."""

    def __init__(self, turns: Turns, told: list[str]) -> None:
        self._turns = turns
        self._told = told
        self.on_receive: Callable[[], object] = lambda: None
        self.on_send: Callable[[], None] = lambda: None
        self.on_going_on: Callable[[], None] = lambda: None
        self.on_sending_rest: Callable[[], None] = lambda: None

    def receive(self) -> None:
        self._told.append("receive")
        self.on_receive()
        self._turns.answered.append(self)

    def go_on(self) -> None:
        self._told.append("go on")
        self.on_going_on()
        self._turns.answered.append(self)

    def send(self) -> None:
        self.on_send()
        self._told.append("send")

    def send_rest(self) -> None:
        self._told.append("send rest")
        self.on_sending_rest()
        self._turns.answered.append(self)

    def abort(self, reason: str) -> None:
        self._told.append("abort")
        self._turns.forget(self)


class Loop:
    """Connections whose ports have something to tell, all in one turn of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.turns = Turns(self._loop)
        self._told: list[str] = []

    def connect(self, count: int) -> list[Told]:
        return [Told(self.turns, self._told) for _ in range(count)]

    def receive(self, *connections: Told) -> None:
        for connection in connections:
            self._loop.call_soon(self.turns.receive, connection)

    def say_later(self) -> None:
        self._loop.call_soon(self._told.append, "later")

    async def told(self) -> list[str]:
        """What was told until nothing more happened."""
        await settled()
        told, self._told[:] = list(self._told), []
        return told


@pytest.fixture
async def loop() -> Loop:
    return Loop()


async def test_answers_wait_for_the_other_requests_of_their_turn(loop: Loop) -> None:
    loop.receive(*loop.connect(3))
    assert await loop.told() == ["receive"] * 3 + ["send"] * 3
    assert await loop.told() == []


async def test_who_is_served_alone_is_answered_at_once(loop: Loop) -> None:
    (connection,) = loop.connect(1)
    loop.receive(connection)
    assert await loop.told() == ["receive", "send"]
    connection.on_receive = loop.say_later
    loop.receive(connection)
    assert await loop.told() == ["receive", "send", "later"]


async def test_who_was_forgotten_is_not_taken_for_the_one_served_last(loop: Loop) -> None:
    (connection,) = loop.connect(1)
    loop.receive(connection)
    await loop.told()
    loop.turns.forget(connection)
    connection.on_receive = loop.say_later
    loop.receive(connection)
    assert await loop.told() == ["receive", "later", "send"]


async def test_nobody_waits_for_the_requests_of_many_others(loop: Loop) -> None:
    loop.receive(*loop.connect(ANSWERED_AT_ONCE + 2))
    told = await loop.told()
    assert told.index("send") == ANSWERED_AT_ONCE
    assert told.count("send") == ANSWERED_AT_ONCE + 2


def fail() -> None:
    raise ValueError("a defect")


@pytest.mark.parametrize("where", ["on_receive", "on_send", "on_going_on", "on_sending_rest"])
async def test_a_connection_that_fails_is_ended_and_the_others_are_answered(
    loop: Loop, where: str
) -> None:
    connections = loop.connect(3)
    setattr(connections[1], where, fail)
    for connection in connections:
        if where == "on_going_on":
            loop.turns.go_on_soon(connection)
        elif where == "on_sending_rest":
            loop.turns.send_rest(connection)
        else:
            loop.receive(connection)
    told = await loop.told()
    assert (told.count("abort"), told.count("send")) == (1, 2)


async def test_who_goes_on_waits_for_nothing_to_come(loop: Loop) -> None:
    (connection,) = loop.connect(1)
    loop.turns.go_on_soon(connection)
    assert loop._told == [], "not from here: who answered may be in another's request"
    assert await loop.told() == ["go on", "send"]
