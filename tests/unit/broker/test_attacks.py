"""Attacks from outside and from inside: silence, slowness, replays, revoked rights, lost secrets.

Each time nobody gets in, and others are served. `tests/fuzz/test_hostile_strangers.py` tries at
random what is done here on purpose.
"""

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource
from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.cluster.security import Security
from floodmark.client.errors import KafkaError
from floodmark.security.acls import AclFilter
from floodmark.security.plain import PlainServer
from floodmark.security.resources import Operation, ResourceKind
from floodmark.security.scram import ScramClient
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from floodmark.wire.numbers import ConfigOperation
from fuzz_kit.locked_broker import LockedBroker, start_locked_broker
from fuzz_kit.looking import open_sockets
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.acls import LOCKED, acl, give
from kit.plain_requests import produce_request
from kit.scraping import watched
from kit.secure_broker import ALICE, PASSWORD, PLAIN_JAAS, SecureBroker, secure_broker
from kit.waiting import wait_for

HALF_OPEN = 2000
MEMORY_OF_ONE_BYTES = 64 * 1024
"""Of OpenSSL, most of it, from the first byte on; a silent connection takes 18 KB."""
TIMEOUT_MS = 1000
TRICKLE_S = 0.02
SWEEPS_S = 15
"""The broker looks every five seconds, and counts from the first look."""
AUTHENTICATION_TIMEOUT = {"floodmark.authentication.timeout.ms": str(TIMEOUT_MS)}


# Connections that say little, or nothing


@pytest.fixture
def _many_files() -> Iterator[None]:
    """The broker inherits the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_many_files")
def test_two_thousand_half_open_connections_cost_little_and_are_closed_in_time(tmp_path):
    locked = start_locked_broker(tmp_path, {"floodmark.authentication.timeout.ms": "6000"})
    process = locked.watched.broker.process
    beginnings = [b"", client_hello(locked)[:7], client_hello(locked)]
    with process:
        asyncio.run(serve(locked))
        sockets_before = open_sockets(process)
        locked.watched.reset()
        silent = []
        try:
            for number in range(HALF_OPEN):
                one = socket.create_connection(("127.0.0.1", locked.tls_port))
                one.sendall(beginnings[number % 3])
                silent.append(one)
            wait_for(lambda: open_sockets(process) >= HALF_OPEN)
            asyncio.run(serve(locked))
            growth_bytes = locked.watched.growth_bytes()
            wait_for(lambda: open_sockets(process) <= sockets_before)
        finally:
            for one in silent:
                one.close()
    assert growth_bytes < HALF_OPEN * MEMORY_OF_ONE_BYTES


async def serve(locked: LockedBroker) -> None:
    options = ConnectionOptions(security=Security(locked.admin_settings))
    connection = await Connection.open("127.0.0.1", locked.tls_port, options)
    assert (await connection.request(MetadataRequest())).brokers
    await connection.close()


def client_hello(locked: LockedBroker) -> bytes:
    context = ssl.create_default_context(cafile=str(locked.ca_file))
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    locked = start_locked_broker(tmp_path_factory.mktemp("locked"), AUTHENTICATION_TIMEOUT)
    with locked.watched.broker.process:
        yield locked


@contextmanager
def closed_in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert TIMEOUT_MS / 1000 * 0.5 < time.monotonic() - began < TIMEOUT_MS / 1000 + SWEEPS_S


def trickle(one: socket.socket, data: bytes) -> None:
    """A byte at a time, until the broker has had enough of it."""
    one.settimeout(TRICKLE_S)
    try:
        for byte in data:
            one.sendall(bytes([byte]))
            try:
                if not one.recv(1):
                    return
            except TimeoutError:
                continue
    except ConnectionError:
        return
    raise AssertionError("it took everything")


def test_a_slow_handshake_is_ended_however_busy_it_looks(impatient):
    with (
        socket.create_connection(("127.0.0.1", impatient.tls_port)) as one,
        closed_in_time(),
    ):
        trickle(one, client_hello(impatient))
        asyncio.run(serve(impatient))


def test_a_slow_token_is_ended_however_busy_it_looks(impatient):
    token = request_bytes(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + b"x" * 5000), 1)
    with (
        socket.create_connection(("127.0.0.1", impatient.sasl_port)) as one,
        closed_in_time(),
    ):
        trickle(one, len(token).to_bytes(4, "big") + token)


def test_a_stranger_cannot_stay_by_asking_for_versions(impatient):
    with RawClient(f"127.0.0.1:{impatient.sasl_port}") as client, closed_in_time():
        deadline = time.monotonic() + 2 * SWEEPS_S
        with pytest.raises(ConnectionError):
            while time.monotonic() < deadline:
                client.ask(ApiVersionsRequest(), 0)
                time.sleep(TRICKLE_S)


@pytest.mark.parametrize("port", ["sasl_port", "tls_port"])
def test_the_other_protocol_ends_that_connection_only(impatient, port):
    hello = client_hello(impatient)
    plain = request_bytes(MetadataRequest(), 9)
    data = hello if port == "sasl_port" else len(plain).to_bytes(4, "big") + plain
    with socket.create_connection(("127.0.0.1", getattr(impatient, port)), 10) as one:
        one.sendall(data)
        received = b""
        try:
            while part := one.recv(1000):
                received += part
        except ConnectionResetError:
            pass
    assert len(received) < 20, "at most an alert"
    asyncio.run(serve(impatient))


# Replays


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


def test_the_tokens_of_an_exchange_that_succeeded_are_worth_nothing_later(secure):
    scram = ScramClient("sha256", ALICE, PASSWORD, "the-nonce-of-alice")
    tokens = [scram.first()]
    nonces = set()
    with RawClient(secure.address("SASL_PLAINTEXT")) as alice:
        assert alice.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
        challenge = alice.ask(SaslAuthenticateRequest(auth_bytes=tokens[0]), 1).auth_bytes
        nonces.add(bytes(challenge).split(b",")[0])
        tokens.append(scram.step(bytes(challenge)))
        assert alice.ask(SaslAuthenticateRequest(auth_bytes=tokens[1]), 1).error_code == 0
    for _ in range(5):
        with RawClient(secure.address("SASL_PLAINTEXT")) as mallory:
            mallory.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            challenge = mallory.ask(SaslAuthenticateRequest(auth_bytes=tokens[0]), 1).auth_bytes
            nonces.add(bytes(challenge).split(b",")[0])
            answer = mallory.ask(SaslAuthenticateRequest(auth_bytes=tokens[1]), 1)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert mallory.is_closed()
    assert len(nonces) == 6, "the broker's part of the nonce is new each time"


# Rights that are taken away during a connection


def scram_login(client: RawClient) -> Any:
    """The answer to the last token."""
    scram = ScramClient("sha256", ALICE, PASSWORD, "nonce")
    assert client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    challenge = client.ask(SaslAuthenticateRequest(auth_bytes=scram.first()), 1).auth_bytes
    final = scram.step(bytes(challenge))
    return client.ask(SaslAuthenticateRequest(auth_bytes=final), 1)


def test_a_deleted_user_is_out_when_its_session_ends_and_cannot_come_back(tmp_path):
    with secure_broker(tmp_path, connections_max_reauth_ms="2500") as secure:
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            assert scram_login(client).error_code == 0
            asyncio.run(delete_alice(secure))
            assert client.ask(MetadataRequest(), 9).brokers, "the session has not ended yet"
            time.sleep(1.1)
            answer = scram_login(client)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            assert scram_login(client).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def delete_alice(secure: SecureBroker) -> None:
    async with Admin(secure.address("PLAINTEXT")) as admin:
        await admin.delete_scram_credentials(ALICE, ["SCRAM-SHA-256", "SCRAM-SHA-512"])


def test_a_revoked_acl_counts_for_the_next_request_of_an_open_connection(tmp_path):
    with secure_broker(tmp_path, authorizer_class_name=LOCKED["authorizer.class.name"]) as secure:
        topic = secure.broker.create_topic()
        rights = [
            acl(Operation.WRITE, ResourceKind.TOPIC, topic, principal=f"User:{ALICE}"),
            acl(Operation.READ, ResourceKind.TOPIC, topic, principal=f"User:{ALICE}"),
            acl(Operation.READ, ResourceKind.GROUP, "group", principal=f"User:{ALICE}"),
        ]
        asked: list[Callable[[RawClient], int]] = [
            lambda client: produced(client, topic),
            lambda client: fetched(client, topic),
            heartbeat,
        ]
        give(secure.broker, rights)
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            assert scram_login(client).error_code == 0
            for _ in range(3):  # by then requests are prepared
                answers = [ask(client) for ask in asked]
                assert answers == [0, 0, ErrorCode.NOT_COORDINATOR]
            secure.broker.call(secure.broker.broker.controller.delete_acls([AclFilter()]))
            assert [ask(client) for ask in asked] == [
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ]


def produced(client: RawClient, topic: str) -> int:
    answer = client.ask(produce_request(topic), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetched(client: RawClient, topic: str) -> int:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, topics=topics, session_epoch=-1)
    return int(client.ask(request, 12).responses[0].partitions[0].error_code)


def heartbeat(client: RawClient) -> int:
    request = HeartbeatRequest(group_id="group", generation_id=1, member_id="nobody")
    return int(client.ask(request, 4).error_code)


# Secrets


async def test_secrets_are_in_no_log_line_traceback_metric_or_setting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with secure_broker(tmp_path) as secure:
        resource_name = ConfigResource.broker(secure.broker.broker.broker_id)
        for listener in ("SASL_SSL", "SASL_PLAINTEXT"):
            for password in (PASSWORD, "wrong-secret"):
                await try_login(secure, listener, password)
        async with Admin(secure.address("PLAINTEXT")) as admin:
            await admin.set_scram_password("eva", "eva-secret")
            name = "listener.name.ssl.ssl.keystore.password"
            change = ConfigChange(name, "store-secret", ConfigOperation.SET)
            await admin.incremental_alter_configs({resource_name: [change]})
            described = await admin.describe_configs(
                [resource_name], include_synonyms=True, include_documentation=True
            )

        def fail(self: PlainServer, message: bytes) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(PlainServer, "step", fail)
        await try_login(secure, "SASL_SSL", PASSWORD)
        assert "a defect" in caplog.text, "the traceback is in the log"
        with watched(secure.broker) as watcher:
            metrics = await asyncio.to_thread(watcher.get, "/metrics")
        shown = [repr(described), caplog.text, repr(metrics), repr(secure.broker.broker.config)]
    assert name in repr(described)
    for secret in (PASSWORD, "admin-secret", "wrong-secret", "eva-secret", "store-secret"):
        assert not [text for text in shown if secret in text], secret
    assert PLAIN_JAAS not in "".join(shown)


async def try_login(secure: SecureBroker, listener: str, password: str) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        given = {"sasl_mechanism": mechanism, "sasl_username": ALICE, "sasl_password": password}
        try:
            connection = await secure.connect(listener, **given)
        except KafkaError as refusal:
            assert password not in repr(refusal)
        else:
            await connection.close()
