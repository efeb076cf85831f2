"""Brokers with ACLs or TLS for security.py, each with settings that both kinds understand.

ACLs: the load comes over PLAINTEXT as `User:ANONYMOUS`, who has rights to `bench-` by prefix among
a hundred ACLs of others; an admin, who gave them, came over a listener of its own. TLS: the load
comes over SSL. Each has a PLAINTEXT listener as well, where its start is seen.
"""

import asyncio
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import wire
from servers import Server

from floodmark.client.admin.admin import Admin
from floodmark.client.settings import ClientSettings
from floodmark.security.acls import Acl
from floodmark.security.resources import Operation, ResourceKind
from kit.acls import STANDARD_AUTHORIZER, acl
from kit.apache_kafka import prepare_kraft
from kit.certificates import Authority
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

OTHER_ACLS = 100
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)
# What a round wrote is to be gone before the next, as in run.py.
_SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "100"}


class TlsConnection(wire.Connection):
    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


@dataclass
class TlsServer(Server):
    """Its connections are encrypted."""

    tls_port: int = 0
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def connect(self, count: int = 1) -> list[wire.Connection]:
        made: list[wire.Connection] = [
            TlsConnection(self.tls_port, self.context) for _ in range(count)
        ]
        self._open += made
        return made


@contextmanager
def open_broker(kind: str, folder: Path) -> Iterator[Server]:
    """Without anything: what ACLs are compared with."""
    port = free_port()
    with _started(kind, folder, port, {"PLAINTEXT": port}, {}) as process:
        yield Server(kind, port, process, folder)


@contextmanager
def broker_with_acls(kind: str, folder: Path) -> Iterator[Server]:
    port, admin_port = free_port(), free_port()
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": _JAAS,
    }
    if kind == "kafka":
        # Its parts talk to each other, and must be somebody.
        settings |= {
            "inter.broker.listener.name": "ADMIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": _JAAS,
        }
    listeners = {"PLAINTEXT": port, "ADMIN": admin_port}
    with _started(kind, folder, port, listeners, settings) as process:
        asyncio.run(_give_rights(admin_port))
        yield Server(f"{kind}-acls", port, process, folder)


@contextmanager
def broker_with_tls(kind: str, folder: Path) -> Iterator[Server]:
    port, tls_port = free_port(), free_port()
    authority = Authority(folder / "certificates")
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server()),
    }
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    with _started(kind, folder, port, {"PLAINTEXT": port, "SSL": tls_port}, settings) as process:
        yield TlsServer(f"{kind}-tls", port, process, folder, tls_port=tls_port, context=context)


@contextmanager
def _started(
    kind: str, folder: Path, port: int, listeners: dict[str, int], settings: dict[str, str]
) -> Iterator[ServerProcess]:
    protocols = {"ADMIN": "SASL_PLAINTEXT"}
    addresses = {name: f"{name}://127.0.0.1:{number}" for name, number in listeners.items()}
    given = {
        **_SETTINGS,
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(addresses.values()),
        **settings,
    }
    command = _kafka if kind == "kafka" else _floodmark
    kinds = ",".join(f"{name}:{protocols.get(name, name)}" for name in listeners)
    folder.mkdir(parents=True, exist_ok=True)
    arguments = command(folder, {**given, "listener.security.protocol.map": kinds})
    with ServerProcess(arguments, folder / "server.out") as process:
        process.wait_until(lambda: broker_answers(port))
        yield process


def _floodmark(folder: Path, settings: dict[str, str]) -> list[str]:
    command = [str(Path(sys.executable).with_name("floodmark")), "up"]
    command += ["--data-dir", str(folder / "data")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def _kafka(folder: Path, settings: dict[str, str]) -> list[str]:
    controller = free_port()
    protocol = "SASL_PLAINTEXT" if "authorizer.class.name" in settings else "PLAINTEXT"
    protocols = settings["listener.security.protocol.map"]
    command, _ = prepare_kraft(
        folder,
        {
            **settings,
            "listeners": f"{settings['listeners']},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:{protocol}",
            # It is frozen while others are measured, which its controller must not notice.
            "broker.session.timeout.ms": "3600000",
        },
    )
    return command


async def _give_rights(port: int) -> None:
    settings = ClientSettings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="admin",
        sasl_password="secret",
    )
    async with Admin(f"127.0.0.1:{port}", settings) as admin:
        refusals = await admin.create_acls(_rights())
    if any(refusals):
        raise wire.Refused(f"ACLs were refused: {refusals}")


def _rights() -> list[Acl]:
    others = [
        acl(Operation.READ, ResourceKind.TOPIC, f"orders-{number}", principal=f"User:u{number}")
        for number in range(OTHER_ACLS)
    ]
    return [
        *others,
        acl(Operation.ALL, ResourceKind.TOPIC, "bench-", prefixed=True),
        acl(Operation.IDEMPOTENT_WRITE, ResourceKind.CLUSTER),
    ]
