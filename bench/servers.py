"""The two brokers that are compared, and what a case needs to reach them."""

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import wire

from kit.apache_kafka import prepare_kraft
from kit.broker import up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

Prepare = Callable[[Path], tuple[list[str], int]]


def _prepare_floodmark(folder: Path) -> tuple[list[str], int]:
    port = free_port()
    return up_command(port, folder / "data"), port


# Prepared (formatted, where it must be) in a folder; gives the start command and the port.
TARGETS: dict[str, Prepare] = {"kafka": prepare_kraft, "floodmark": _prepare_floodmark}


@dataclass
class Server:
    """A running broker and its connections for the length of one case."""

    name: str
    port: int
    process: ServerProcess
    folder: Path
    _open: list[wire.Connection] = field(default_factory=list)

    def connect(self, count: int = 1) -> list[wire.Connection]:
        connections = [wire.Connection(self.port) for _ in range(count)]
        self._open += connections
        return connections

    @contextmanager
    def topic(self, partitions: int) -> Iterator[bytes]:
        """A topic for one measurement: its id; deleted afterwards, so disks do not fill."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        (connection,) = self.connect()
        topic_id = wire.create_topic(connection, name, partitions)
        try:
            yield topic_id
        finally:
            wire.delete_topic(connection, name)
            for opened in self._open:
                opened.close()
            self._open.clear()


def launch(name: str, folder: Path) -> tuple[ServerProcess, int]:
    """Start a broker without waiting for it; its process carries the time of the start."""
    folder.mkdir(parents=True, exist_ok=True)
    command, port = TARGETS[name](folder)
    return ServerProcess(command, folder / "server.out"), port


@contextmanager
def running(name: str, folder: Path) -> Iterator[Server]:
    process, port = launch(name, folder)
    with process:
        process.wait_until(lambda: broker_answers(port))
        yield Server(name, port, process, folder)
