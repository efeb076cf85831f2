"""Brokers in one process, as in tests, run on threads of their own and share no receive buffer.

They did: bytes from one broker's clients ended up in another's TLS, whose clients saw failed
handshakes and records, or waited for a response until their requests timed out.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.cluster.security import Security
from floodmark.client.settings import ClientSettings
from floodmark.testing import Broker
from floodmark.wire.messages.metadata import MetadataRequest
from kit.certificates import Authority

CONNECTIONS = 150
REQUESTS = 10


def test_tls_clients_of_one_broker_are_not_disturbed_by_those_of_another(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    security = Security(
        ClientSettings(security_protocol="SSL", ssl_ca_location=str(authority.ca_file))
    )
    options = ConnectionOptions(security=security)

    async def ask(broker: Broker) -> int:
        host, port = broker.bootstrap_servers.split(":")
        answered = 0
        for _ in range(CONNECTIONS):
            connection = await Connection.open(host, int(port), options)
            for _ in range(REQUESTS):
                await connection.request(MetadataRequest(topics=[]))
                answered += 1
            await connection.close()
        return answered

    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server()),
    }
    with (
        Broker(tmp_path / "one", settings) as one,
        Broker(tmp_path / "other", settings) as other,
        ThreadPoolExecutor() as threads,
    ):
        brokers = [one, other] * 2
        answered = list(threads.map(lambda broker: asyncio.run(ask(broker)), brokers))
    assert answered == [CONNECTIONS * REQUESTS] * len(brokers)
