"""Brokers that speak TLS and SASL with each other, and replicate what was produced over TLS."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.security import Security
from floodmark.client.errors import AuthenticationError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ClientSettings, ProducerSettings
from floodmark.config.errors import ConfigError
from floodmark.testing import Broker
from kit.certificates import Authority
from kit.secure_broker import ALICE, PASSWORD, PLAIN_JAAS
from kit.waiting import wait_for


@contextmanager
def cluster(folder: Path, authority: Authority, protocol: str) -> Iterator[list[Broker]]:
    server = str(authority.server())
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Broker(
                    folder / f"data-{number}",
                    {
                        "node.id": number,
                        "floodmark.cluster.dir": str(folder / "cluster"),
                        "listeners": f"{protocol}://127.0.0.1:0",
                        "security.inter.broker.protocol": protocol,
                        "sasl.mechanism.inter.broker.protocol": "PLAIN",
                        "sasl.enabled.mechanisms": "PLAIN",
                        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": PLAIN_JAAS,
                        "ssl.keystore.type": "PEM",
                        "ssl.keystore.location": server,
                        "ssl.truststore.type": "PEM",
                        "ssl.truststore.location": str(authority.ca_file),
                        "ssl.client.auth": "required",
                    },
                )
            )
            for number in (1, 2)
        ]


def ends(brokers: list[Broker]) -> set[int]:
    """The ends of the partition's logs on all brokers."""
    replicas = [broker.broker.replicas.find(("t", 0)) for broker in brokers]
    return {0 if one is None else one.log.log_end_offset for one in replicas}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_topic_is_replicated_between_secure_brokers(tmp_path, protocol):
    authority = Authority(tmp_path / "certificates")
    security: dict[str, Any] = {
        "security_protocol": protocol,
        "ssl_ca_location": str(authority.ca_file),
        "ssl_certificate_location": str(authority.client("client")),
        "sasl_mechanism": "PLAIN",
        "sasl_username": ALICE,
        "sasl_password": PASSWORD,
    }
    with cluster(tmp_path, authority, protocol) as brokers:
        address = brokers[1].bootstrap_servers
        wait_for(lambda: len(brokers[0].broker.metadata.image.live_brokers()) == 2)
        async with Admin(address, ClientSettings(**security)) as admin:
            (outcome,) = await admin.create_topics([NewTopic("t", 1, 2)])
            assert outcome.error is None
        async with Producer(address, ProducerSettings(**security, acks="all")) as producer:
            for number in range(20):
                await producer.send_and_wait("t", b"%d" % number)
        wait_for(lambda: ends(brokers) == {20})


async def test_brokers_follow_a_change_of_authority_one_by_one(tmp_path):
    """A broker that runs believes the new authority, and shows its new certificate to others."""
    files = tmp_path / "certificates"
    authority = Authority(files)
    security: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_ca_location": str(authority.ca_file),
    }
    security["ssl_certificate_location"] = str(authority.client("client"))
    with cluster(tmp_path, authority, "SSL") as brokers:
        wait_for(lambda: len(brokers[0].broker.metadata.image.live_brokers()) == 2)
        # The same paths, names and subjects; nothing of the old authority is left.
        renewed = Authority(files)
        renewed.server()
        renewed.client("client")

        async def look() -> None:
            brokers[0].broker.tls._look(0)

        brokers[0].call(look())
        brokers[1].stop()
        brokers[1].start()
        wait_for(lambda: len(brokers[0].broker.metadata.image.live_brokers()) == 2)
        address = brokers[1].bootstrap_servers
        async with Admin(address, ClientSettings(**security)) as admin:
            (outcome,) = await admin.create_topics([NewTopic("t", 1, 2)])
            assert outcome.error is None
        async with Producer(address, ProducerSettings(**security, acks="all")) as producer:
            await producer.send_and_wait("t", b"1")
        wait_for(lambda: ends(brokers) == {1})


async def test_a_client_uses_new_files_for_new_connections_and_keeps_old_ones_else(tmp_path):
    authority = Authority(tmp_path / "certificates")
    pem = authority.client("client")
    settings = ClientSettings(
        security_protocol="SSL",
        ssl_ca_location=str(authority.ca_file),
        ssl_certificate_location=str(pem),
    )
    security = Security(settings)
    first = security.context()
    assert security.context() is first
    authority.client("client")
    second = security.context()
    assert second is not first
    pem.write_text("half a file")
    assert security.context() is second
    with pytest.raises(AuthenticationError, match="unusable"):
        Security(settings).context()


def test_a_cluster_without_a_name_for_its_brokers_does_not_start(tmp_path):
    settings = {
        "node.id": "1",
        "floodmark.cluster.dir": str(tmp_path / "cluster"),
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    }
    with pytest.raises(ConfigError, match="cannot authenticate to each other"):
        Broker(tmp_path / "data", settings).start()
