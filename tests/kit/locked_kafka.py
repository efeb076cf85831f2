"""Apache Kafka 4.3.0 with an authorizer: clients are anonymous, the test is a super user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.raw_client import RawClient
from kit.apache_kafka import prepare_kraft
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)


@contextmanager
def locked_kafka(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses for anonymous clients and for super users, who log in (`log_in`)."""
    port, internal, controller = free_port(), free_port(), free_port()
    served = f"PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}"
    command, _ = prepare_kraft(
        folder,
        {
            "listeners": f"{served},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": served,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.internal.plain.sasl.jaas.config": _JAAS,
            "listener.name.controller.plain.sasl.jaas.config": _JAAS,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,"
            "CONTROLLER:SASL_PLAINTEXT",
        },
        heap="512m",
    )
    with ServerProcess(command, folder / "kafka.out") as process:
        process.wait_until(lambda: broker_answers(port))
        yield f"127.0.0.1:{port}", f"127.0.0.1:{internal}"


def log_in(client: RawClient) -> None:
    """As the super user."""
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.ask(SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret"), 2).error_code == 0
