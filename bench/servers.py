"""The two brokers that are compared, and what a case needs to reach them."""

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import wire

from kit.apache_kafka import prepare_kraft
from kit.broker import up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

Settings = Mapping[str, str] | None
Prepare = Callable[[Path, Settings], tuple[list[str], int]]


def _prepare_floodmark(folder: Path, settings: Settings) -> tuple[list[str], int]:
    port = free_port()
    return up_command(port, folder / "data", settings), port


def _prepare_kafka(folder: Path, settings: Settings) -> tuple[list[str], int]:
    # It is frozen while the other is measured, which its controller must not take for its end.
    patience = {"broker.session.timeout.ms": "3600000"}
    return prepare_kraft(folder, {**(settings or {}), **patience})


# Prepared (formatted, where it must be) in a folder; gives the start command and the port.
TARGETS: dict[str, Prepare] = {"kafka": _prepare_kafka, "floodmark": _prepare_floodmark}


@dataclass
class Server:
    """A running broker and its connections for the length of one case."""

    name: str
    port: int
    process: ServerProcess
    folder: Path
    settings: Settings = None
    _open: list[wire.Connection] = field(default_factory=list)

    def connect(self, count: int = 1) -> list[wire.Connection]:
        connections = [wire.Connection(self.port) for _ in range(count)]
        self._open += connections
        return connections

    @contextmanager
    def topic(
        self, partitions: int, name: str | None = None, configs: Settings = None
    ) -> Iterator[bytes]:
        """A topic for one measurement: its id; deleted afterwards, so disks do not fill."""
        name = name or new_name()
        (connection,) = self.connect()
        topic_id = wire.create_topic(connection, name, partitions, configs)
        try:
            yield topic_id
        finally:
            wire.delete_topic(connection, name)
            for opened in self._open:
                opened.close()
            self._open.clear()


def new_name() -> str:
    """For a topic or a group that was never there before."""
    return f"bench-{uuid.uuid4().hex[:12]}"


def launch(name: str, folder: Path, settings: Settings = None) -> tuple[ServerProcess, int]:
    """Start a broker without waiting for it; its process carries the time of the start."""
    folder.mkdir(parents=True, exist_ok=True)
    command, port = TARGETS[name](folder, settings)
    return ServerProcess(command, folder / "server.out"), port


@contextmanager
def running(name: str, folder: Path, settings: Settings = None) -> Iterator[Server]:
    process, port = launch(name, folder, settings)
    with process:
        process.wait_until(lambda: broker_answers(port))
        yield Server(name, port, process, folder, settings)


@contextmanager
def running_command(floodmark: list[str], folder: Path) -> Iterator[Server]:
    """A Floodmark that is started by this command instead of our own, for example of another
    checkout, with a fixed order of sets."""
    port = free_port()
    command = floodmark + up_command(port, folder / "data")[1:]
    process = ServerProcess(command, folder / "server.out", {"PYTHONHASHSEED": "0"})
    with process:
        process.wait_until(lambda: broker_answers(port))
        _wait_until_idle(process)
        yield Server("floodmark", port, process, folder)


def _wait_until_idle(process: ServerProcess) -> None:
    """A fresh broker loads modules in the background for a while."""
    before, now = -1.0, process.cpu_seconds()
    while now - before > 0.01:
        time.sleep(0.5)
        before, now = now, process.cpu_seconds()
