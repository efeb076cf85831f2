"""A broker process for the demo: listens on a free port and stops when the block ends."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from floodmark.child_python import child_python
from floodmark.cli.errors import CliError
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import KafkaError

START_SECONDS = 30.0
STOP_SECONDS = 20.0


@contextmanager
def demo_broker(folder: Path) -> Iterator[str]:
    """Yields the address of a broker that keeps its data in this folder."""
    port = _free_port()
    log = folder / "broker.log"
    data_dir = str(folder / "broker")
    command = child_python("floodmark", "up", "--port", str(port), "--data-dir", data_dir)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        bootstrap = f"127.0.0.1:{port}"
        if not asyncio.run(_answers(bootstrap)):
            raise CliError("the broker did not start", why=log.read_text(errors="replace")[-2000:])
        yield bootstrap
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _answers(bootstrap: str) -> bool:
    cluster = Cluster(bootstrap)
    try:
        await cluster.retry(cluster.refresh, timeout_ms=START_SECONDS * 1000)
    except KafkaError:
        return False
    finally:
        await cluster.close()
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
