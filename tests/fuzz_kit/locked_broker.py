"""A broker for the fuzz with an authorizer and listeners for SASL, with and without TLS.

`ADMIN` may do everything, `MALLORY` gets in and may do nothing, `ALICE` has a password that nobody
but the test knows.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from floodmark.client.settings import ClientSettings
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.gunner import Streams
from fuzz_kit.raw_client import request_bytes
from kit.acls import STANDARD_AUTHORIZER
from kit.certificates import Authority
from kit.process import free_port
from kit.watched_broker import WatchedBroker, start_watched_broker

ADMIN, MALLORY, ALICE = "admin", "mallory", "alice"
PASSWORDS = {ADMIN: "admin-secret", MALLORY: "mallory-secret", ALICE: "alice-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"


@dataclass(frozen=True)
class LockedBroker:
    watched: WatchedBroker
    sasl_port: int
    tls_port: int
    ca_file: Path

    @property
    def admin_settings(self) -> ClientSettings:
        return ClientSettings(
            security_protocol="SASL_SSL",
            ssl_ca_location=str(self.ca_file),
            sasl_mechanism="PLAIN",
            sasl_username=ADMIN,
            sasl_password=PASSWORDS[ADMIN],
        )

    @property
    def admin_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    async def open_plain(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.sasl_port)

    async def open_tls(self) -> Streams:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        return await asyncio.open_connection("127.0.0.1", self.tls_port, ssl=context)

    async def open_as_mallory(self) -> Streams:
        streams = await self.open_plain()
        token = f"\0{MALLORY}\0{PASSWORDS[MALLORY]}".encode()
        await ask(streams, request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        await ask(streams, request_bytes(SaslAuthenticateRequest(auth_bytes=token), 1))
        return streams


async def ask(streams: Streams, body: bytes) -> bytes:
    """The frame that answers this one. ConnectionError or IncompleteReadError when it ends."""
    reader, writer = streams
    writer.write(len(body).to_bytes(4, "big") + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


def start_locked_broker(folder: Path, given: Mapping[str, str] | None = None) -> LockedBroker:
    authority = Authority(folder / "certificates")
    plain, sasl, tls = free_port(), free_port(), free_port()
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},"
        f"SASL_SSL://127.0.0.1:{tls}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS.format(users),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": _JAAS.format(users),
        "floodmark.sasl.oauthbearer.unsecured.tokens": "true",
        "connection.failed.authentication.delay.ms": "10",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server()),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        **(given or {}),
    }
    watched = start_watched_broker(folder, settings, plain)
    return LockedBroker(watched, sasl, tls, authority.ca_file)
