"""A broker in the test's process with every kind of listener, and users for each mechanism."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.cluster.security import Security
from floodmark.client.security_settings import SecuritySettings
from floodmark.controller.users import CredentialChange
from floodmark.security.sasl import SCRAM_HASHES
from floodmark.security.scram_credentials import credential_of, salted_password
from floodmark.testing.broker_thread import Broker
from kit.certificates import Authority

ALICE, PASSWORD = "alice", "alice-secret"
PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" '
    f'user_{ALICE}="{PASSWORD}";'
)
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def unsecured_token(name: str = ALICE, *, expires_in_s: int = 600) -> str:
    """Of somebody who says so himself: see the setting for unsecured tokens below."""
    now = int(time.time())
    claims = {"sub": name, "iat": now - 1000, "exp": now + expires_in_s}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


@dataclass
class SecureBroker:
    broker: Broker
    authority: Authority

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.port(listener)}"

    def port(self, listener: str) -> int:
        return self.broker.broker.network.port(listener)

    def add_scram_user(self, name: str, password: str) -> None:
        changes = []
        for number, (_, hash_name) in enumerate(SCRAM_HASHES.items(), 1):
            salted = salted_password(hash_name, password, b"salt", 4096)
            made = credential_of(hash_name, salted, b"salt", 4096)
            changes.append(CredentialChange(name, number, made))
        controller = self.broker.broker.controller
        self.broker.call(controller.alter_scram_credentials(changes))

    def settings(self, listener: str, **given: Any) -> dict[str, Any]:
        """Of a client of ours."""
        trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": self.authority.ca_file}
        return {
            "security_protocol": listener,
            **{name: str(value) for name, value in trust.items()},
            **given,
        }

    async def connect(self, listener: str, **given: Any) -> Connection:
        security = Security(SecuritySettings(**self.settings(listener, **given)))
        return await Connection.open(
            "127.0.0.1", self.port(listener), ConnectionOptions(security=security)
        )

    def principals(self, listener: str) -> list[str]:
        """Of the connections to a listener."""

        async def look() -> list[str]:
            return [
                str(connection.peer.principal)
                for processor in self.broker.broker.network.processors
                for connection in processor.connections
                if connection.peer.listener_name == listener
            ]

        return self.broker.call(look())

    def connections(self) -> int:
        async def count() -> int:
            await asyncio.sleep(0)
            return sum(len(p.connections) for p in self.broker.broker.network.processors)

        return self.broker.call(count())


@contextmanager
def secure_broker(folder: Path, **settings: str) -> Iterator[SecureBroker]:
    """Names of settings have underscores for dots; a double one stays an underscore."""
    authority = Authority(folder / "certificates")
    given = {name.replace("_", ".").replace("..", "_"): v for name, v in settings.items()}
    with Broker(
        settings={
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
            "floodmark.sasl.oauthbearer.unsecured.tokens": "true",
            "connection.failed.authentication.delay.ms": "20",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca_file),
            "ssl.client.auth": "requested",
            **given,
        }
    ) as broker:
        secure = SecureBroker(broker, authority)
        secure.add_scram_user(ALICE, PASSWORD)
        yield secure
