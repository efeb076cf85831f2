"""Who gets in on a listener with TLS or SASL, as whom, and who does not."""

import asyncio
import base64
import json
import logging
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource
from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import AuthenticationError, KafkaError
from floodmark.client.settings import ClientSettings
from floodmark.config.errors import ConfigError
from floodmark.testing.broker_thread import Broker
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import alter_configs, incremental_alter_configs
from floodmark.wire.messages.alter_configs import AlterConfigsRequest
from floodmark.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from floodmark.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from floodmark.wire.numbers import ConfigOperation
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.certificates import Authority, as_pkcs12
from kit.plain_requests import produce_request
from kit.secure_broker import ALICE, MECHANISMS, PASSWORD, PLAIN_JAAS, SecureBroker, secure_broker

UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredLoginStringClaim_sub="{ALICE}";'
)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


def login(mechanism: str, password: str = PASSWORD, name: str = ALICE) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_jaas_config": UNSECURED}
    return {"sasl_mechanism": mechanism, "sasl_username": name, "sasl_password": password}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_every_mechanism_says_who_a_client_is(secure, listener, mechanism):
    connection = await secure.connect(listener, **login(mechanism))
    assert (await connection.request(MetadataRequest())).brokers
    assert f"User:{ALICE}" in await asyncio.to_thread(secure.principals, listener)
    await connection.close()


async def test_a_certificate_says_who_a_client_is(secure):
    pem = secure.authority.client("dora")
    connection = await secure.connect(
        "SSL", ssl_keystore_type="PEM", ssl_keystore_location=str(pem)
    )
    assert (await connection.request(MetadataRequest())).brokers
    (principal,) = await asyncio.to_thread(secure.principals, "SSL")
    assert principal.startswith("User:CN=dora,")
    await connection.close()


async def test_without_a_certificate_a_client_is_anonymous(secure):
    connection = await secure.connect("SSL")
    assert (await connection.request(MetadataRequest())).brokers
    assert await asyncio.to_thread(secure.principals, "SSL") == ["User:ANONYMOUS"]
    await connection.close()


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("PLAIN", "Invalid username or password"),
        ("SCRAM-SHA-256", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "due to invalid credentials with SASL mechanism SCRAM-SHA-512"),
    ],
)
@pytest.mark.parametrize("name", [ALICE, "nobody"])
async def test_a_wrong_password_is_told_in_kafkas_words(secure, mechanism, words, name):
    with pytest.raises(AuthenticationError, match=words) as caught:
        await secure.connect("SASL_SSL", **login(mechanism, "wrong", name))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not caught.value.retriable


async def test_an_expired_token_is_refused(secure):
    claims = {"sub": ALICE, "exp": 1_000_000}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
    with pytest.raises(AuthenticationError, match="invalid_token"):
        await secure.connect(
            "SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: token
        )


async def test_a_client_that_knows_another_authority_refuses_us(secure, tmp_path):
    other = Authority(tmp_path)
    with pytest.raises(AuthenticationError, match="was rejected"):
        await secure.connect("SSL", ssl_truststore_location=str(other.ca_file))


@pytest.mark.parametrize("what", ["of another authority", "expired"])
async def test_a_client_certificate_that_does_not_count_is_refused(secure, tmp_path, what):
    """Also where clients need none."""
    stranger = Authority(tmp_path).client("mallory")
    pem = secure.authority.expired_client() if what == "expired" else stranger
    with pytest.raises(KafkaError):
        connection = await secure.connect(
            "SSL", ssl_keystore_type="PEM", ssl_keystore_location=str(pem)
        )
        await connection.request(MetadataRequest())


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [
        ("SASL_PLAINTEXT", "PLAINTEXT"),
        ("SASL_SSL", "PLAINTEXT"),
        ("SSL", "PLAINTEXT"),
        ("PLAINTEXT", "SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT"),
        ("SSL", "SASL_SSL"),
        ("SASL_SSL", "SSL"),
    ],
)
async def test_a_client_with_another_protocol_gets_nowhere(secure, listener, protocol):
    settings = ClientSettings(
        **secure.settings(protocol, **login("PLAIN")),
        default_api_timeout_ms=300,
        request_timeout_ms=300,
    )
    with pytest.raises(KafkaError):
        async with Admin(secure.address(listener), settings) as admin:
            await admin.list_topics()


# Requests before authentication, and steps in the wrong order


@pytest.fixture
def stranger(secure: SecureBroker) -> Iterator[RawClient]:
    with RawClient(secure.address("SASL_PLAINTEXT")) as client:
        yield client


def test_a_stranger_may_ask_for_versions_and_nothing_else(secure, stranger):
    assert stranger.ask(ApiVersionsRequest(), 0).api_keys
    stranger.send_frame(request_bytes(MetadataRequest(), 9))
    assert stranger.is_closed()


def test_a_token_before_the_handshake_ends_the_connection(stranger):
    stranger.send_frame(request_bytes(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 1))
    assert stranger.is_closed()


def test_a_second_handshake_during_authentication_ends_the_connection(stranger):
    assert stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    stranger.send_frame(request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    assert stranger.is_closed()


def test_a_request_during_authentication_ends_the_connection(stranger):
    assert stranger.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc")
    assert stranger.ask(first, 1).auth_bytes.startswith(b"r=abc")
    stranger.send_frame(request_bytes(MetadataRequest(), 9))
    assert stranger.is_closed()


def test_an_unknown_mechanism_is_told_what_there_is_and_the_connection_ends(stranger):
    answer = stranger.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == list(MECHANISMS)
    assert stranger.is_closed()


def test_a_failure_is_answered_late_and_ends_the_connection(secure, stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    began = time.monotonic()
    answer = stranger.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    assert time.monotonic() - began >= 0.02
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert stranger.is_closed()


def test_an_authenticated_client_without_an_end_cannot_authenticate_again(stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = SaslAuthenticateRequest(auth_bytes=f"\0{ALICE}\0{PASSWORD}".encode())
    assert stranger.ask(token, 1).error_code == 0
    assert stranger.ask(token, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    again = stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert stranger.ask(MetadataRequest(), 9).brokers


def test_an_unknown_name_is_asked_for_the_iterations_that_users_have(tmp_path):
    with secure_broker(tmp_path) as secure:
        upsertion = ScramCredentialUpsertion(
            name=ALICE, mechanism=1, iterations=8192, salt=b"s" * 26, salted_password=b"p"
        )
        with RawClient(secure.address("PLAINTEXT")) as client:
            client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        replies = []
        for name in (ALICE, "nobody", "nobody"):
            with RawClient(secure.address("SASL_PLAINTEXT")) as client:
                client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
                first = SaslAuthenticateRequest(auth_bytes=f"n,,n={name},r=x".encode())
                replies.append(bytes(client.ask(first, 1).auth_bytes).split(b","))
    (_, known, iterations), (_, salt, *rest), (_, again, *_) = replies
    assert iterations == b"i=8192"
    assert rest == [iterations]
    assert len(salt) == len(known)
    assert salt == again


def test_bare_tokens_follow_the_oldest_handshake(stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    stranger.send_frame(f"\0{ALICE}\0{PASSWORD}".encode())
    assert stranger.read_frame() == b""
    assert stranger.ask(MetadataRequest(), 9).brokers


def test_a_wrong_bare_token_ends_the_connection(stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    stranger.send_frame(b"\0alice\0wrong")
    assert stranger.is_closed()


def test_a_stranger_cannot_send_large_requests(secure, stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    stranger.send((600_000).to_bytes(4, "big") + bytes(100))
    assert stranger.is_closed()


def test_an_authenticated_client_can(stranger):
    stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    stranger.ask(SaslAuthenticateRequest(auth_bytes=f"\0{ALICE}\0{PASSWORD}".encode()), 1)
    topics = [MetadataRequestTopic(name=f"{number:05}{'x' * 200}") for number in range(4000)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    assert len(stranger.ask(request, 9).topics) == 4000


# Sessions with an end


async def test_a_session_is_renewed_by_the_same_client_only(tmp_path):
    with secure_broker(tmp_path, connections_max_reauth_ms="3000") as secure:  # noqa: SIM117
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            token = SaslAuthenticateRequest(auth_bytes=f"\0{ALICE}\0{PASSWORD}".encode())
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert client.ask(token, 1).session_lifetime_ms == 3000
            early = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE, "within the first second"
            await asyncio.sleep(1.05)
            assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            assert client.ask(token, 1).session_lifetime_ms == 3000
            await asyncio.sleep(1.05)
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            other = SaslAuthenticateRequest(auth_bytes=b"\0admin\0admin-secret")
            answer = client.ask(other, 1)
            assert "Cannot change principals" in answer.error_message
            assert client.is_closed()


async def test_a_session_that_was_not_renewed_ends(tmp_path):
    with secure_broker(tmp_path, connections_max_reauth_ms="300") as secure:  # noqa: SIM117
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{ALICE}\0{PASSWORD}".encode()), 1)
            assert client.ask(MetadataRequest(), 9).brokers
            await asyncio.sleep(0.4)
            client.send_frame(request_bytes(MetadataRequest(), 9))
            assert client.is_closed()


async def test_no_prepared_produce_outlives_its_session(tmp_path):
    with secure_broker(tmp_path, connections_max_reauth_ms="1500") as secure:
        topic = secure.broker.create_topic()
        with RawClient(secure.address("SASL_PLAINTEXT")) as client:
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{ALICE}\0{PASSWORD}".encode()), 1)
            for _ in range(3):
                answer = client.ask(produce_request(topic), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
            await asyncio.sleep(1.6)
            client.send_frame(request_bytes(produce_request(topic), 9))
            assert client.is_closed()


# Users


async def test_scram_users_are_set_described_and_deleted(secure):
    plain = await Connection.open("127.0.0.1", secure.port("PLAINTEXT"))
    upsertions = [
        ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
        )
        for name, mechanism, iterations in [
            ("eva", 1, 4096),
            ("eva", 2, 8192),
            ("", 1, 4096),
            ("few", 1, 4095),
            ("many", 1, 16385),
            ("kind", 3, 4096),
            ("twice", 1, 4096),
            ("twice", 1, 4096),
        ]
    ]
    deletions = [ScramCredentialDeletion(name="nobody", mechanism=1)]
    answer = await plain.request(
        AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
    )
    assert {x.user: ErrorCode.of(x.error_code).name for x in answer.results} == {
        "nobody": "RESOURCE_NOT_FOUND",
        "eva": "NONE",
        "": "UNACCEPTABLE_CREDENTIAL",
        "few": "UNACCEPTABLE_CREDENTIAL",
        "many": "UNACCEPTABLE_CREDENTIAL",
        "kind": "UNSUPPORTED_SASL_MECHANISM",
        "twice": "DUPLICATE_RESOURCE",
    }
    described = await plain.request(
        DescribeUserScramCredentialsRequest(
            users=[UserName(name=n) for n in ("eva", "nobody", "twice", "twice")]
        )
    )
    assert [
        (x.user, x.error_code, [(i.mechanism, i.iterations) for i in x.credential_infos])
        for x in described.results
    ] == [
        ("eva", 0, [(1, 4096), (2, 8192)]),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("twice", ErrorCode.DUPLICATE_RESOURCE, []),
    ]
    everybody = await plain.request(DescribeUserScramCredentialsRequest(users=None))
    assert {x.user for x in everybody.results} == {ALICE, "eva"}
    gone = [ScramCredentialDeletion(name="eva", mechanism=m) for m in (1, 2)]
    await plain.request(AlterUserScramCredentialsRequest(deletions=gone))
    everybody = await plain.request(DescribeUserScramCredentialsRequest(users=[]))
    assert {x.user for x in everybody.results} == {ALICE}
    await plain.close()


def test_users_survive_a_restart(tmp_path):
    with secure_broker(tmp_path) as secure:
        secure.add_scram_user("a/b c%.", "x")
        secure.broker.stop()
        secure.broker.start()

        async def connect() -> None:
            login_of = login("SCRAM-SHA-512", "x", "a/b c%.")
            await (await secure.connect("SASL_SSL", **login_of)).close()

        asyncio.run(connect())


# Keys that change, and what is refused at the start


async def served_certificate(secure: SecureBroker) -> bytes:
    context = ssl.create_default_context(cafile=str(secure.authority.ca_file))
    _, writer = await asyncio.open_connection(
        "127.0.0.1", secure.port("SSL"), ssl=context, server_hostname="localhost"
    )
    certificate = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    return certificate


async def test_new_files_are_used_for_new_connections_and_bad_ones_are_not(tmp_path, caplog):
    with secure_broker(tmp_path) as secure:
        before = await served_certificate(secure)
        listeners = secure.broker.broker.tls

        async def look() -> None:
            listeners._look(0)

        path = secure.authority.server()
        secure.broker.call(look())
        after = await served_certificate(secure)
        assert after != before
        path.write_text("nonsense")
        secure.broker.call(look())
        assert await served_certificate(secure) == after
        secure.authority.server("other").rename(path)
        secure.broker.call(look())
        assert await served_certificate(secure) == after, "its subject is another"
        assert "keeps its certificate" in caplog.text


async def test_dynamic_settings_replace_the_key_of_a_listener(tmp_path):
    with secure_broker(tmp_path) as secure:
        before = await served_certificate(secure)
        renewed = secure.authority.server("server").rename(tmp_path / "renewed.pem")
        async with Admin(secure.address("PLAINTEXT")) as admin:
            resource = ConfigResource.broker(secure.broker.broker.broker_id)
            name = "listener.name.ssl.ssl.keystore.location"
            change = ConfigChange(name, str(renewed), ConfigOperation.SET)
            (outcome,) = await admin.incremental_alter_configs({resource: [change]})
            assert outcome.error is None
        assert await served_certificate(secure) != before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"location": "{folder}/nowhere.pem"}, "could not be read"),
        ({"location": "{other}"}, "its subject is CN=other"),
        ({"location": "{pkcs12}", "type": "PKCS12", "password": "wrong"}, "password"),
        ({"type": "JKS"}, "holds PEM text"),
    ],
)
@pytest.mark.parametrize("way", ["incremental", "whole"])
async def test_a_key_that_cannot_be_used_is_refused_and_nothing_changes(
    tmp_path, settings, words, way
):
    with secure_broker(tmp_path) as secure:
        before = await served_certificate(secure)
        places = {
            "folder": tmp_path,
            "other": secure.authority.server("other"),
            "pkcs12": as_pkcs12(secure.authority.server("stored")),
        }
        changes = {
            f"listener.name.ssl.ssl.keystore.{name}": value.format(**places)
            for name, value in settings.items()
        }
        changes["listener.name.ssl.max.connections"] = "77"
        image = secure.broker.broker.metadata.image
        number = secure.broker.broker.broker_id
        connection = await Connection.open("127.0.0.1", secure.port("PLAINTEXT"))
        if way == "incremental":
            request: Any = incremental_request(
                {str(number): changes, "": {"log.retention.ms": "9999"}}
            )
        else:
            request = whole_request({str(number): changes, "": {"log.retention.ms": "9999"}})
        answers = {one.resource_name: one for one in (await connection.request(request)).responses}
        await connection.close()
        assert answers[""].error_code == 0, "others of the request are not concerned"
        assert answers[str(number)].error_code == ErrorCode.INVALID_REQUEST
        assert words in answers[str(number)].error_message
        after = secure.broker.broker.metadata.image
        assert after.config("broker", str(number)) == image.config("broker", str(number))
        assert await served_certificate(secure) == before


def incremental_request(changes: dict[str, dict[str, str]]) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=4,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=0, value=value
                    )
                    for key, value in settings.items()
                ],
            )
            for name, settings in changes.items()
        ]
    )


def whole_request(changes: dict[str, dict[str, str]]) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=4,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value)
                    for key, value in settings.items()
                ],
            )
            for name, settings in changes.items()
        ]
    )


async def test_days_to_expiry_are_known(secure):
    days = secure.broker.broker.tls.listeners["SSL"].days_left(int(time.time() * 1000))
    assert days > 30


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"listeners": "SSL://127.0.0.1:0"}, "needs a key and a certificate"),
        (
            {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": "/missing.p12"},
            "/missing.p12 could not be read",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"},
            "needs listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"},
            "no keys to validate tokens",
        ),
    ],
)
def test_a_listener_on_which_nobody_could_get_in_keeps_the_broker_from_starting(settings, why):
    with pytest.raises(ConfigError, match=why):
        Broker(settings=settings).start()


# Secrets


async def test_secrets_are_in_no_answer_and_no_log_line(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    with secure_broker(tmp_path) as secure:
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            with pytest.raises(AuthenticationError):
                await secure.connect("SASL_SSL", **login(mechanism, "wrong-secret"))
        async with Admin(secure.address("PLAINTEXT")) as admin:
            resource = ConfigResource.broker(secure.broker.broker.broker_id)
            described = repr(await admin.describe_configs([resource]))
    assert "sasl.jaas.config" in described
    for secret in (PASSWORD, "admin-secret", "wrong-secret", PLAIN_JAAS):
        assert secret not in described and secret not in caplog.text
