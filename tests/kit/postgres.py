"""A PostgreSQL of its own for tests, from the machine's package, on a free port of loopback."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.process import ServerProcess, free_port
from kit.tools import missing

# Debian keeps servers of several versions out of the PATH.
_FOLDERS = "/usr/lib/postgresql"
_USER = "floodmark"
_FAST = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB"]


@dataclass(frozen=True)
class Postgres:
    url: str
    port: int
    command: list[str]
    folder: Path
    running: list[ServerProcess]

    def start(self) -> None:
        log = self.folder / f"log-{uuid.uuid4().hex[:8]}"
        process = ServerProcess(self.command, log, {})
        self.running.append(process)
        process.wait_until(lambda: "ready to accept connections" in process.output())

    def stop(self) -> None:
        """At once: clients lose their connections."""
        process = self.running.pop()
        os.kill(process.pid, signal.SIGINT)
        process.stop()

    def query(self, sql: str) -> list[list[str]]:
        """The rows of a result as texts, or nothing."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", _USER, "-d", "postgres"]
        outcome = subprocess.run(
            [*command, "-At", "-F", "|", "-c", sql],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return [line.split("|") for line in outcome.stdout.splitlines()]


@contextmanager
def postgres() -> Iterator[Postgres]:
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="floodmark-postgres-"))
    try:
        as_user = _as_user(folder)
        data = folder / "data"
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", _USER, "-A", "trust"]
        subprocess.run(
            [*as_user, *initdb, "--no-sync"], check=True, capture_output=True, timeout=120
        )
        port = free_port()
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
        command += ["-c", "listen_addresses=127.0.0.1", *_FAST]
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user={_USER}"
        server = Postgres(url, port, [*as_user, *command], folder, [])
        try:
            server.start()
            yield server
        finally:
            for process in server.running:
                process.stop()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).parent
    versions = sorted(Path(_FOLDERS).glob("*/bin/postgres"))
    if not versions:
        missing("PostgreSQL's server is not installed")
    return versions[-1].parent


def _as_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    shutil.chown(folder, "postgres", "postgres")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
