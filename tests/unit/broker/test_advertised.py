"""What clients are told when the broker listens everywhere."""

import logging
import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from floodmark.broker.advertised import reachable_host
from floodmark.testing.broker_thread import BrokerThread


def test_a_host_of_its_own_is_told_as_it_is() -> None:
    assert reachable_host("127.0.0.1") == "127.0.0.1"
    assert reachable_host("kafka.example") == "kafka.example"


@pytest.mark.parametrize("everywhere", ["", "0.0.0.0", "::"])
def test_all_addresses_become_the_name_of_the_machine(
    everywhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "a-machine")
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, port: [name])
    assert reachable_host(everywhere) == "a-machine"


def test_a_name_that_nobody_can_resolve_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, port: None) -> None:
        raise socket.gaierror(name)

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert reachable_host("0.0.0.0") == "localhost"


def test_metadata_never_names_the_meta_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        everywhere = {"listeners": "PLAINTEXT://0.0.0.0:0"}
        with BrokerThread(tmp_path, everywhere) as broker:
            port = broker.bootstrap_servers.rpartition(":")[2]
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            (told,) = admin.list_topics(timeout=30).brokers.values()
    assert told.host == reachable_host("0.0.0.0")
    assert str(told.port) == port
    assert "advertised.listeners" in caplog.text
