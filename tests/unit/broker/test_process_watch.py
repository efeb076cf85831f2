"""What proves that a broker's process is gone, and what does not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from floodmark.broker.process_watch import until_gone
from kit.process import free_port

HOST = "127.0.0.1"
NOT_SO_SOON_S = 0.4

LISTENER = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
connections = []
while True:
    connections.append(server.accept())
    print("accepted", flush=True)
"""


class Process:
    """A process that listens, and says when it has accepted a connection."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-c", LISTENER, str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.expect("listens")

    def expect(self, line: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == line

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def process(port: int) -> Iterator[Process]:
    process = Process(port)
    yield process
    process.end()


@pytest.fixture
async def watch(port: int) -> Iterator[asyncio.Task[None]]:
    task = asyncio.create_task(until_gone(HOST, port))
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def is_not_proven(watch: asyncio.Task[None]) -> bool:
    done, _ = await asyncio.wait([watch], timeout=NOT_SO_SOON_S)
    return not done


async def test_a_killed_process_is_gone_at_once(process: Process, watch) -> None:
    await asyncio.to_thread(process.expect, "accepted")
    process.signal(signal.SIGKILL)
    await asyncio.wait_for(watch, 5)


async def test_a_connection_reset_before_its_address_is_known_ends_no_watch(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """The system does not tell the address of a peer that has already reset the connection."""
    real = asyncio.StreamWriter.get_extra_info

    def without_peer(writer: asyncio.StreamWriter, name: str) -> object:
        return None if name == "peername" else real(writer, name)

    monkeypatch.setattr(asyncio.StreamWriter, "get_extra_info", without_peer)
    process = await asyncio.to_thread(Process, port)
    watch = asyncio.create_task(until_gone(HOST, port))
    await asyncio.to_thread(process.expect, "accepted")
    await asyncio.to_thread(process.end)
    await asyncio.wait_for(watch, 5)


async def test_a_port_that_refuses_before_it_was_ever_open_proves_nothing(
    port: int, watch: asyncio.Task[None]
) -> None:
    assert await is_not_proven(watch)
    process = await asyncio.to_thread(Process, port)
    await asyncio.to_thread(process.expect, "accepted")
    assert not watch.done()
    process.end()
    await asyncio.wait_for(watch, 5)


async def test_a_paused_process_is_not_gone(process: Process, watch) -> None:
    await asyncio.to_thread(process.expect, "accepted")
    process.signal(signal.SIGSTOP)
    assert await is_not_proven(watch)
    process.signal(signal.SIGCONT)
    assert await is_not_proven(watch)


async def test_a_connection_that_ends_while_the_port_is_open_proves_nothing(
    port: int, watch: asyncio.Task[None]
) -> None:
    """An idle connection was closed, or another process has taken the port meanwhile."""
    accepted = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.close()

    async with await asyncio.start_server(hang_up, HOST, port):
        assert await is_not_proven(watch)
    assert 1 <= accepted <= 2 + NOT_SO_SOON_S / 0.1
    await asyncio.wait_for(watch, 5)


async def test_a_port_that_closed_while_connections_are_served_proves_nothing(
    port: int, watch: asyncio.Task[None]
) -> None:
    """An orderly stop refuses new connections first, and answers who waits."""
    connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.put_nowait(writer)

    server = await asyncio.start_server(serve, HOST, port)
    writer = await connections.get()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))
    assert await is_not_proven(watch)
    writer.close()
    await asyncio.wait_for(watch, 5)
