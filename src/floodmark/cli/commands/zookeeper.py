"""`floodmark zookeeper`: runs a real ZooKeeper in the foreground, for trying out a cluster.

Runs one server or an ensemble on loopback, with PySpark's jars or those in a given folder. Not for
production: all servers of the ensemble share one machine.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.zookeeper.server import (
    HOST,
    NoJars,
    Peer,
    ServerPlan,
    check_jars,
    plan,
    pyspark_jars,
)

DEFAULT_PORT = 2181
PEER_PORTS = 707
ELECTION_PORTS = 1707
"""Offset from the client port: 2181 gives the customary 2888 and 3888."""

POLL_S = 0.1
MOST_POLLS = 600
LOG_NAME = "zookeeper.log"


@click.command(
    cls=Command,
    examples=[
        "floodmark zookeeper",
        "floodmark zookeeper --nodes 3 --port 2181 --data-dir zookeeper-data",
        "floodmark zookeeper --jars /opt/kafka_2.13-3.9.1/libs",
        "floodmark up --broker-id 1 --zookeeper 127.0.0.1:2181",
    ],
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 7),
    default=1,
    show_default=True,
    help="Number of servers; three tolerate the loss of one.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 63000),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the first server; the others use the ports after it.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    default="zookeeper-data",
    show_default=True,
    help="Folder for data and logs.",
)
@click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with ZooKeeper's jars, such as Kafka 3.9's libs.  [PySpark's]",
)
def zookeeper(nodes: int, port: int, data_dir: str, jars: str | None) -> int:
    """Run a real ZooKeeper on this machine to try out a cluster. Requires Java.

    The jars come from PySpark (pip install 'floodmark[spark]') or from --jars.
    """
    peers = [
        Peer(port + index, port + index + PEER_PORTS, port + index + ELECTION_PORTS)
        for index in range(nodes)
    ]
    plans = plan(Path(data_dir), _jars(jars), peers)
    servers = _Servers(plans)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, servers.stop)
    try:
        if servers.wait_until_ready():
            connect = ",".join(f"{HOST}:{one.port}" for one in plans)
            click.echo(f"ZooKeeper listens on {connect}, data in {data_dir}")
            click.echo(f"  start a broker:  floodmark up --broker-id 1 --zookeeper {connect}")
            click.echo("  stop: Ctrl-C")
        return servers.wait()
    finally:
        servers.stop()


def _jars(given: str | None) -> Path:
    folder = Path(given) if given is not None else pyspark_jars()
    try:
        if folder is None:
            raise NoJars("PySpark, whose jars include ZooKeeper, is not installed")
        return check_jars(folder)
    except NoJars as error:
        raise CliError(
            "ZooKeeper is not installed",
            why=str(error),
            hint="name a jar folder with --jars, or run pip install 'floodmark[spark]'",
        ) from error


class _Servers:
    def __init__(self, plans: Sequence[ServerPlan]) -> None:
        self._stopping = threading.Event()
        self._plans = plans
        self._processes: list[subprocess.Popen[bytes]] = []
        for one in plans:
            with (one.config.parent / LOG_NAME).open("ab") as log:
                self._processes.append(_started(one, log.fileno()))

    def wait_until_ready(self) -> bool:
        """Returns False if it was stopped before it was ready."""
        polls_left = MOST_POLLS
        for one, process in zip(self._plans, self._processes, strict=True):
            while not self._stopping.is_set() and not _serves(one.port):
                polls_left -= 1
                if process.poll() is not None or polls_left < 0:
                    raise CliError(
                        f"ZooKeeper did not start on port {one.port}",
                        why=f"its messages are in {one.config.parent / LOG_NAME}",
                        hint="fix the problem shown there, or choose another --port",
                    )
                self._stopping.wait(POLL_S)
        return not self._stopping.is_set()

    def wait(self) -> int:
        for process in self._processes:
            process.wait()
        return 0

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping.set()
        for process in self._processes:
            if process.poll() is None:
                process.terminate()


def _started(one: ServerPlan, log: int) -> subprocess.Popen[bytes]:
    try:
        # We forward Ctrl-C ourselves.
        return subprocess.Popen(one.command, stdout=log, stderr=log, start_new_session=True)
    except FileNotFoundError as error:
        raise CliError(
            "ZooKeeper needs Java",
            why="there is no java on the PATH",
            hint="install a JRE, version 11 or later",
        ) from error


def _serves(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1) as connection:
        connection.sendall(b"srvr")
        return b"Mode:" in b"".join(iter(lambda: connection.recv(4096), b""))
    return False
