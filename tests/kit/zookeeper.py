"""A real ZooKeeper 3.9, one server or an ensemble of three; 3 seconds to start.

The jars are PySpark's where it is installed, else Apache Kafka 3.9.1's from Maven Central. Ports
and data stay over a restart.
"""

import socket
import time
from collections.abc import Sequence
from pathlib import Path

from floodmark.testing.with_block import WithBlock
from floodmark.zookeeper.server import Peer, ServerPlan, plan, pyspark_jars
from kit.jars import KAFKA_3, kafka_jars
from kit.process import ServerProcess, free_port
from kit.tools import require_tool

TICK_MS = 200

_TLS = """secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={server}
ssl.keyStore.type=PEM
ssl.trustStore.location={authority}
ssl.trustStore.type=PEM
ssl.clientHostnameVerification=false
"""


class ZooKeeper(WithBlock):
    """One server on a free port of loopback, or one of an ensemble."""

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        planned: ServerPlan | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """`tls` are the PEM files of the server and of its authority: it then has a second port
        that asks for certificates."""
        require_tool("java")
        if planned is None:
            (planned,) = plan(folder, zookeeper_jars(), [_peer(port)], tick_ms=TICK_MS)
        self.port = planned.port
        self.tls_port = free_port()
        if tls is not None:
            with planned.config.open("a") as file:
                file.write(_TLS.format(port=self.tls_port, server=tls[0], authority=tls[1]))
        self._planned = planned
        self._process: ServerProcess | None = None

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch()
        self.wait_until_serving()

    def launch(self) -> None:
        log = self._planned.config.parent / "log.txt"
        self._process = ServerProcess(self._planned.command, log)

    def wait_until_serving(self) -> None:
        assert self._process is not None
        self._process.wait_until(lambda: bool(self.mode()))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()  # ZooKeeper's log is synced; it has no orderly end either
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.freeze()

    def thaw(self) -> None:
        assert self._process is not None
        self._process.thaw()

    def mode(self) -> str:
        """`standalone`, `leader` or `follower`; empty while it serves nobody."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            time.sleep(0.05)
            return ""
        lines = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)
        return lines.get("Mode", "")

    def _enter(self) -> None:
        self.start()

    def close(self) -> None:
        self.stop()


class Ensemble(WithBlock):
    """Three servers: one may be down at a time."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        require_tool("java")
        peers = [_peer() for _ in range(count)]
        plans = plan(folder, zookeeper_jars(), peers, tick_ms=TICK_MS)
        self.servers: Sequence[ZooKeeper] = [ZooKeeper(folder, planned=one) for one in plans]

    @property
    def hosts(self) -> str:
        return ",".join(server.hosts for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_until_serving()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def leader(self) -> ZooKeeper:
        return next(server for server in self.servers if server.mode() == "leader")

    def _enter(self) -> None:
        self.start()

    def close(self) -> None:
        self.stop()


def zookeeper_jars() -> Path:
    found = pyspark_jars()
    if found is not None:
        return found
    require_tool("mvn")
    return kafka_jars(KAFKA_3)


def _peer(port: int | None = None) -> Peer:
    return Peer(port or free_port(), free_port(), free_port())
