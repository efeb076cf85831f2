"""The port of a socket tells what the loop sees of it, and can send files inside the kernel."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.network.plain_port import PlainPort
from floodmark.storage.files import FileSlice, RealFiles
from kit.connections import settled

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        yield ours, theirs


async def test_it_tells_of_what_comes_until_it_is_told_to_stop(ends: Ends) -> None:
    port = PlainPort(ends[0], asyncio.get_running_loop())
    told: list[str] = []
    port.watch_receiving(lambda: told.append("receive"))
    await settled()
    assert told == []
    ends[1].send(b"x")
    await settled()
    assert len(told) > 1, "again and again, as long as it is not received"
    port.ignore_receiving()
    told.clear()
    await settled()
    assert told == []
    assert port.receive_into(memoryview(bytearray(10))) == 1
    port.close()


async def test_it_tells_when_the_peer_takes_something_again(ends: Ends) -> None:
    port = PlainPort(ends[0], asyncio.get_running_loop())
    with pytest.raises(BlockingIOError):
        while True:
            port.send(bytes(1 << 20))
    told: list[str] = []
    port.watch_sending(lambda: told.append("send"))
    await settled()
    assert told == []
    ends[1].recv(1 << 20)
    await settled()
    assert told
    port.ignore_sending()
    port.close()


async def test_nobody_is_told_after_it_was_closed(ends: Ends) -> None:
    port = PlainPort(ends[0], asyncio.get_running_loop())
    told: list[str] = []
    port.watch_receiving(lambda: told.append("receive"))
    port.watch_sending(lambda: told.append("send"))
    ends[1].send(b"x")
    port.close()
    await settled()
    assert told == []


async def test_a_port_that_was_closed_in_the_same_turn_tells_nothing() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    ports = [PlainPort(ours, asyncio.get_running_loop()) for ours, _ in pairs]
    told: list[int] = []

    def close_both() -> None:
        told.append(1)
        for port in ports:
            port.close()

    for port in ports:
        port.watch_receiving(close_both)
    for _, theirs in pairs:
        theirs.send(b"x")
    await settled()
    assert told == [1]
    for _, theirs in pairs:
        theirs.close()


async def test_the_kernel_sends_pieces_of_files(
    ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(bytes(range(200)))
    file = RealFiles().open(tmp_path / "log")
    port = PlainPort(ends[0], asyncio.get_running_loop())
    monkeypatch.delattr(FileSlice, "read")
    assert port.send_slice(FileSlice(file, 10, 100), 5, 50) == 50
    assert ends[1].recv(1000) == bytes(range(15, 65))
    port.close()
    file.close()
