"""Delegation tokens in one cluster of Apache Kafka 3.9.1 and Floodmark: each takes the other's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.cluster.security import Security
from floodmark.client.errors import AuthenticationError, KafkaError
from floodmark.client.security_settings import SecuritySettings
from floodmark.security.delegation_tokens import password_of
from floodmark.testing import Broker
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from floodmark.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kit.apache_kafka import zookeeper_member
from kit.process import ServerProcess, free_port
from kit.tools import require_tool
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

KAFKA, OURS = 1, 2
LISTENER = "listener.name.sasl_plaintext"
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret" user_alice="alice-secret";'
)
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BY_PASSWORD = SecuritySettings(
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password="alice-secret",
)


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[dict[int, int]]:
    """Of the brokers; Kafka's is the controller."""
    require_tool("java", "mvn")
    ports = {KAFKA: free_port(), OURS: free_port()}
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        connect, folder = f"{zookeeper.hosts}/kafka", tmp_path / "kafka"
        folder.mkdir()
        command = zookeeper_member(folder, KAFKA, ports[KAFKA], connect, settings(ports[KAFKA]))
        with ServerProcess(command, folder / "out.txt") as process:
            process.wait_until(lambda: answers(ports[KAFKA]))
            own = {"node.id": str(OURS), "zookeeper.connect": connect, **settings(ports[OURS])}
            with Broker(tmp_path / "ours", own):
                yield ports


def settings(port: int) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{LISTENER}.plain.sasl.jaas.config": PLAIN,
        f"{LISTENER}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "delegation.token.secret.key": "the same on all brokers",
        "zookeeper.session.timeout.ms": "10000",
    }


def ask(port: int, message: Any) -> Any:
    """As alice, this very broker."""

    async def run() -> Any:
        security = Security(BY_PASSWORD)
        connection = await Connection.open("127.0.0.1", port, ConnectionOptions(security=security))
        try:
            return await connection.request(message)
        finally:
            await connection.close()

    return asyncio.run(run())


def answers(port: int) -> bool:
    try:
        return bool(ask(port, MetadataRequest()).brokers)
    except KafkaError:
        return False


def lets_in(port: int, token: Any) -> bool:
    login = f'username="{token.token_id}" password="{password_of(bytes(token.hmac))}"'
    bearer = SecuritySettings(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=f'{SCRAM_MODULE} required {login} tokenauth="true";',
    )

    async def run() -> bool:
        options = ConnectionOptions(security=Security(bearer))
        try:
            await (await Connection.open("127.0.0.1", port, options)).close()
        except AuthenticationError:
            return False
        return True

    return asyncio.run(run())


@pytest.mark.parametrize(("maker", "other"), [(KAFKA, OURS), (OURS, KAFKA)])
def test_a_token_of_either_kind_of_broker_counts_at_both(ports, maker, other):
    token = ask(ports[maker], CreateDelegationTokenRequest(max_lifetime_ms=-1))
    assert token.error_code == ErrorCode.NONE
    for port in ports.values():
        wait_for(lambda port=port: lets_in(port, token), 20)
    renewed = ask(ports[other], RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1))
    assert renewed.error_code == ErrorCode.NONE
    ended = ask(
        ports[other], ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    )
    assert ended.error_code == ErrorCode.NONE
    for port in ports.values():
        wait_for(lambda port=port: not lets_in(port, token), 20)
