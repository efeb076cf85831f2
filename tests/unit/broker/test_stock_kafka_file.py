"""`floodmark up --config` with the server.properties of Apache Kafka 4, as a process."""

import socket
import sys
from pathlib import Path

import pytest

from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/kraft-combined-logs
"""


def test_it_starts_one_broker_and_says_in_one_line_what_it_ignored(tmp_path: Path) -> None:
    port, controller_port = free_port(), free_port()
    file = tmp_path / "server.properties"
    file.write_text(
        STOCK.format(port=port, controller_port=controller_port, folder=tmp_path), encoding="utf-8"
    )
    command = [str(Path(sys.executable).with_name("floodmark")), "up", "--config", str(file)]
    output = tmp_path / "floodmark.out"
    with ServerProcess(command, output) as process:
        process.wait_until(lambda: broker_answers(port), timeout_s=30)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", controller_port), timeout=5).close()
    ignored = [line for line in output.read_text().splitlines() if "process.roles" in line]
    assert len(ignored) == 1
    assert "this broker is its own controller" in ignored[0]
    assert f"CONTROLLER://127.0.0.1:{controller_port}" in ignored[0]
