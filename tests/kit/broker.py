"""Our broker as a process, started by the same command that a user types.

Used by the client, crash and adoption tests and by bench/.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from floodmark.testing.broker_thread import settings_from_environment
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port


@dataclass(frozen=True)
class Broker:
    """What a test needs from a running broker, ours or Apache Kafka's."""

    port: int
    data_dir: Path
    process: ServerProcess

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def up_command(port: int, data_dir: Path, settings: Mapping[str, str] | None = None) -> list[str]:
    """`floodmark up` of the environment that runs the tests."""
    command = [str(Path(sys.executable).with_name("floodmark")), "up"]
    command += ["--port", str(port), "--data-dir", str(data_dir)]
    for name, value in {**settings_from_environment(), **(settings or {})}.items():
        command += ["--set", f"{name}={value}"]
    return command


def start_floodmark(
    folder: Path, settings: Mapping[str, str] | None = None, port: int | None = None
) -> Broker:
    """Start our broker on `folder`/data and wait until it answers; the caller stops or kills it."""
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    data_dir = folder / "data"
    process = ServerProcess(up_command(port, data_dir, settings), folder / "floodmark.out")
    process.wait_until(lambda: broker_answers(port), timeout_s=30)
    return Broker(port, data_dir, process)


@contextmanager
def floodmark_broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Our broker for the length of a block; it must end in order."""
    broker = start_floodmark(folder, settings)
    with broker.process:
        yield broker
