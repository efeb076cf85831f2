"""The port in memory calls back and blocks as a socket does."""

import pytest

from floodmark.network.port import Port
from floodmark.testing.memory_port import MemoryPort
from kit.connections import settled


def received(port: Port, size_bytes: int) -> bytes:
    room = bytearray(size_bytes)
    return bytes(room[: port.receive_into(memoryview(room))])


async def test_it_calls_back_as_long_as_there_is_something_to_receive() -> None:
    port = MemoryPort()
    taken: list[bytes] = []
    port.watch_receiving(lambda: taken.append(received(port, 2)))
    port.client.write(b"abcde")
    assert taken == [], "not from inside a call"
    await settled()
    assert taken == [b"ab", b"cd", b"e"]
    with pytest.raises(BlockingIOError):
        received(port, 2)


async def test_it_does_not_call_back_when_it_is_not_watched() -> None:
    port = MemoryPort()
    taken: list[bytes] = []
    port.watch_receiving(lambda: taken.append(received(port, 2)))
    port.client.write(b"ab")
    port.ignore_receiving()
    await settled()
    assert taken == []
    port.watch_receiving(lambda: taken.append(received(port, 2)))
    await settled()
    assert taken == [b"ab"]


async def test_it_takes_what_the_window_holds_and_calls_back_when_there_is_room() -> None:
    port = MemoryPort(window_bytes=3)
    assert port.send(b"abcde") == 3
    with pytest.raises(BlockingIOError):
        port.send(b"de")
    sent: list[int] = []

    def send_rest() -> None:
        sent.append(port.send(b"de"))
        port.ignore_sending()

    port.watch_sending(send_rest)
    await settled()
    assert sent == []
    assert port.client.take() == b"abc"
    await settled()
    assert (sent, port.client.take()) == ([2], b"de")


async def test_what_was_written_before_the_end_is_received_first() -> None:
    port = MemoryPort()
    port.client.write(b"last")
    port.client.end()
    assert (received(port, 10), received(port, 10)) == (b"last", b"")
    assert port.send(b"answer") == 6


async def test_after_a_reset_nothing_goes_through() -> None:
    port = MemoryPort()
    port.client.write(b"lost")
    port.client.reset()
    for act in (lambda: received(port, 10), lambda: port.send(b"x")):
        with pytest.raises(ConnectionResetError):
            act()


async def test_the_client_sees_the_end_of_the_connection() -> None:
    port = MemoryPort()
    port.send(b"\0\0\0\x04cut")
    port.close()
    with pytest.raises(EOFError):
        await port.client.answer()
    assert await port.client.closed() == b""
