"""A real ZooKeeper 3.9, from the jars that PySpark brings; 3 seconds to start.

Its port stays over `restart`, and so does its data; `expire` ends a client's session as an outage
beyond its timeout would.
"""

import importlib.util
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from kit.process import ServerProcess, free_port
from kit.tools import missing, require_tool

_CONFIG = """tickTime=200
dataDir={folder}/data
clientPortAddress=127.0.0.1
clientPort={port}
admin.enableServer=false
minSessionTimeout=400
maxSessionTimeout=60000
4lw.commands.whitelist=ruok
"""


class ZooKeeper:
    """One server on a free port of loopback."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        require_tool("java")
        self.port = port or free_port()
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "zoo.cfg"
        self._config.write_text(_CONFIG.format(folder=folder, port=self.port))
        self._process: ServerProcess | None = None

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{_jars()}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
        self._process = ServerProcess([*command, str(self._config)], self._folder / "log.txt")
        self._process.wait_until(self._answers)

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

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            time.sleep(0.05)
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        missing("ZooKeeper comes from PySpark's jars: install the extra spark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "jars"
