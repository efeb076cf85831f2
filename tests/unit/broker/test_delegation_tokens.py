"""Delegation tokens: who gets one, who may use, change and see it; that every broker knows it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.apis.delegation_tokens import TokenRefused, TokenWish
from floodmark.broker import token_requests
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.tokens import TokenDescription
from floodmark.client.errors import AuthenticationError, KafkaError
from floodmark.client.settings import ClientSettings
from floodmark.security.resources import Operation, ResourceKind
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from floodmark.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from floodmark.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kit.acls import STANDARD_AUTHORIZER, acl, give, take_all
from kit.secure_broker import ALICE, PASSWORD, SecureBroker, secure_broker
from kit.thread_cluster import Cluster
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

KEY = "a secret that all brokers share"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(
        tmp_path_factory.mktemp("secure"),
        delegation_token_secret_key=KEY,
        delegation_token_expiry_check_interval_ms="100",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:admin",
    ) as running:
        for name in ("bob", "eve"):
            running.add_scram_user(name, PASSWORD)
        yield running


def by_password(name: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    password = "admin-secret" if name == "admin" else PASSWORD
    return {"sasl_mechanism": mechanism, "sasl_username": name, "sasl_password": password}


def by_token(token: TokenDescription, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    line = (
        f'{SCRAM_MODULE} required username="{token.token_id}" password="{token.password}" '
        'tokenauth="true";'
    )
    return {"sasl_mechanism": mechanism, "sasl_jaas_config": line}


def client(secure: SecureBroker, login: dict[str, Any], listener: str = "SASL_SSL") -> Admin:
    settings = ClientSettings(**secure.settings(listener, **login), default_api_timeout_ms=5000)
    return Admin(secure.address(listener), settings)


def as_user(secure: SecureBroker, name: str) -> Admin:
    return client(secure, by_password(name, "PLAIN" if name == "admin" else "SCRAM-SHA-256"))


async def token_of(secure: SecureBroker, name: str = ALICE, **wish: Any) -> TokenDescription:
    async with as_user(secure, name) as admin:
        return await admin.create_delegation_token(**wish)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_who_has_a_token_is_its_owner(secure, mechanism, listener):
    token = await token_of(secure)
    assert (token.owner, token.requester) == (f"User:{ALICE}", f"User:{ALICE}")
    connection = await secure.connect(listener, **by_token(token, mechanism))
    assert (await connection.request(MetadataRequest())).brokers
    assert f"User:{ALICE}" in await asyncio.to_thread(secure.principals, listener)
    await connection.close()


async def test_every_version_is_answered(secure):
    connection = await secure.connect("SASL_SSL", **by_password(ALICE))
    for version in (1, 2, 3):
        wish = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        made = await connection.request(wish, max_version=version)
        for request in (
            RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1),
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=100_000),
        ):
            answer = await connection.request(request, max_version=min(version, 2))
            assert (answer.error_code, answer.expiry_timestamp_ms > 0) == (0, True)
        described = await connection.request(
            DescribeDelegationTokenRequest(owners=None), max_version=version
        )
        requesters = {one.token_id: one.token_requester_principal_name for one in described.tokens}
        expected = ALICE if version == 3 else ""
        assert made.token_requester_principal_name == requesters[made.token_id] == expected
    await connection.close()


async def test_a_token_makes_and_shows_no_tokens(secure):
    token = await token_of(secure)
    async with client(secure, by_token(token)) as bearer:
        for request in (
            bearer.create_delegation_token(),
            bearer.renew_delegation_token(token.hmac),
            bearer.expire_delegation_token(token.hmac),
            bearer.describe_delegation_tokens(),
        ):
            with pytest.raises(KafkaError) as caught:
                await request
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
async def test_strangers_get_no_token(secure, listener):
    async with client(secure, {}, listener) as stranger:
        with pytest.raises(KafkaError) as caught:
            await stranger.create_delegation_token()
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_a_certificate_is_enough_for_a_token(secure):
    pem = str(secure.authority.client("dora"))
    certificate = {"ssl_keystore_type": "PEM", "ssl_keystore_location": pem}
    async with client(secure, certificate, "SSL") as dora:
        assert (await dora.create_delegation_token()).owner.startswith("User:CN=dora,")


async def test_a_token_for_somebody_else_needs_the_right(secure):
    take_all(secure.broker)
    with pytest.raises(KafkaError) as caught:
        await token_of(secure, "eve", owner="User:bob")
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    right = acl(Operation.CREATE_TOKENS, ResourceKind.USER, "User:bob", principal="User:eve")
    give(secure.broker, [right])
    token = await token_of(secure, "eve", owner="User:bob")
    assert (token.owner, token.requester) == ("User:bob", "User:eve")
    connection = await secure.connect("SASL_SSL", **by_token(token))
    assert "User:bob" in await asyncio.to_thread(secure.principals, "SASL_SSL")
    await connection.close()
    take_all(secure.broker)


async def test_renewers_are_users(secure):
    with pytest.raises(KafkaError) as caught:
        await token_of(secure, renewers=["Group:ops"])
    assert caught.value.code is ErrorCode.INVALID_PRINCIPAL_TYPE


async def test_tokens_are_bounded(secure, monkeypatch):
    """Every user may make them, and they are kept until they expire."""
    with pytest.raises(KafkaError) as caught:
        await token_of(secure, renewers=["User:" + "x" * 30_000])
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    for name in ("greedy", "modest"):
        await asyncio.to_thread(secure.add_scram_user, name, PASSWORD)
    monkeypatch.setattr(token_requests, "MOST_TOKENS_OF_REQUESTER", 1)
    await token_of(secure, "greedy")
    with pytest.raises(KafkaError) as caught:
        await token_of(secure, "greedy")
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert (await token_of(secure, "modest")).owner == "User:modest", "others still get theirs"


async def test_owner_and_renewer_renew_it_and_a_stranger_does_not(secure):
    token = await token_of(secure, renewers=["User:bob"])
    for name in (ALICE, "bob"):
        async with as_user(secure, name) as renewer:
            assert await renewer.renew_delegation_token(token.hmac, 10**12) == token.max_ms
    async with as_user(secure, "eve") as eve:
        for request in (
            eve.renew_delegation_token(token.hmac),
            eve.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(KafkaError) as caught:
                await request
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        with pytest.raises(KafkaError) as caught:
            await eve.renew_delegation_token(b"a guess")
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_a_token_that_was_ended_lets_nobody_in(secure):
    token = await token_of(secure, renewers=["User:bob"])
    async with as_user(secure, "bob") as bob:
        await bob.expire_delegation_token(token.hmac)
        with pytest.raises(KafkaError) as caught:
            await bob.renew_delegation_token(token.hmac)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    words = "due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    with pytest.raises(AuthenticationError, match=words):
        await secure.connect("SASL_SSL", **by_token(token))


async def test_a_password_is_no_token_and_a_token_no_password(secure):
    token = await token_of(secure)
    as_password = {**by_password(token.token_id), "sasl_password": token.password}
    with pytest.raises(AuthenticationError):
        await secure.connect("SASL_SSL", **as_password)
    line = f'{SCRAM_MODULE} required username="{ALICE}" password="{PASSWORD}" tokenauth="true";'
    with pytest.raises(AuthenticationError):
        await secure.connect("SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=line)


async def test_a_session_ends_with_its_token_and_the_token_is_removed(secure):
    token = await token_of(secure, max_lifetime_ms=700)
    connection = await secure.connect("SASL_SSL", **by_token(token))
    assert (await connection.request(MetadataRequest())).brokers
    image = secure.broker.broker.metadata
    wait_for(lambda: token.token_id not in image.image.tokens)
    with pytest.raises(KafkaError):
        await connection.request(MetadataRequest())
    await connection.close()
    with pytest.raises(AuthenticationError):
        await secure.connect("SASL_SSL", **by_token(token))


async def test_tokens_are_seen_by_those_they_concern_and_with_a_right(secure):
    take_all(secure.broker)
    token = await token_of(secure, renewers=["User:bob"])

    async def seen_by(name: str, owners: list[str] | None = None) -> bool:
        async with as_user(secure, name) as admin:
            found = await admin.describe_delegation_tokens(owners)
        return token in found

    assert [await seen_by(name) for name in (ALICE, "bob", "eve", "admin")] == [
        True,
        True,
        False,
        True,
    ]
    assert await seen_by(ALICE, ["User:bob"])
    assert not await seen_by(ALICE, ["User:eve"])
    assert not await seen_by(ALICE, [])
    for right in (
        acl(
            Operation.DESCRIBE,
            ResourceKind.DELEGATION_TOKEN,
            token.token_id,
            principal="User:eve",
        ),
        acl(Operation.DESCRIBE_TOKENS, ResourceKind.USER, token.owner, principal="User:eve"),
    ):
        give(secure.broker, [right])
        assert await seen_by("eve")
        take_all(secure.broker)


async def test_without_a_secret_key_there_are_no_tokens(tmp_path):
    with secure_broker(tmp_path) as secure:
        async with as_user(secure, ALICE) as admin:
            for request in (
                admin.create_delegation_token(),
                admin.renew_delegation_token(b"x"),
                admin.expire_delegation_token(b"x"),
                admin.describe_delegation_tokens(),
            ):
                with pytest.raises(KafkaError) as caught:
                    await request
                assert caught.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_tokens_survive_a_restart(tmp_path):
    with secure_broker(tmp_path, delegation_token_secret_key=KEY) as secure:
        token = asyncio.run(token_of(secure))
        secure.broker.stop()
        secure.broker.start()

        async def connect() -> None:
            await (await secure.connect("SASL_SSL", **by_token(token))).close()

        asyncio.run(connect())


# In a cluster


@pytest.fixture(params=["folder", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    settings: dict[str, Any] = {"delegation_token_secret_key": KEY}
    if request.param == "folder":
        running = Cluster(tmp_path, **settings)
        yield running
        running.close()
        return
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        running = Cluster(tmp_path, {"zookeeper.connect": zookeeper.hosts}, **settings)
        yield running
        running.close()


@pytest.mark.timeout(90)
def test_every_broker_makes_tokens_and_knows_those_of_the_others(cluster):
    wish = TokenWish("User:alice", "User:alice", ("User:bob",), -1)
    made = {}
    for broker in cluster.brokers.values():
        token = broker.call(broker.broker.token_requests.create(wish))
        assert broker.broker.metadata.image.tokens[token.token_id] == token
        made[token.token_id] = token
    wait_for(lambda: all(cluster.image(one).tokens == made for one in cluster.running))
    # Each is changed by a broker that did not make it.
    for broker, token in zip(cluster.brokers.values(), reversed(list(made.values())), strict=True):
        requests = broker.broker.token_requests
        broker.call(requests.renew(requests.hmac_of(token), "User:bob", 1_000_000))
        made[token.token_id] = broker.broker.metadata.image.tokens[token.token_id]
        assert made[token.token_id].expiry_ms < token.expiry_ms
    wait_for(lambda: all(cluster.image(one).tokens == made for one in cluster.running))
    first, *others = cluster.brokers.values()
    for token in made.values():
        requests = first.broker.token_requests
        first.call(requests.expire(requests.hmac_of(token), "User:alice", -1))
    wait_for(lambda: all(not cluster.image(one).tokens for one in cluster.running))
    with pytest.raises(TokenRefused):
        requests = others[0].broker.token_requests
        others[0].call(requests.renew(requests.hmac_of(token), "User:bob", -1))


async def test_an_owner_of_another_type_than_a_user_is_refused(secure):
    """Its bearer would be the user of that name, whom an ACL may protect from just this."""
    every = acl(Operation.CREATE_TOKENS, ResourceKind.USER, "*", principal="User:eve")
    but = acl(Operation.ALL, ResourceKind.USER, "User:root", deny=True, principal="User:eve")
    give(secure.broker, [every, but])
    connection = await secure.connect("SASL_SSL", **by_password("eve"))
    wanted = {"Group": ErrorCode.INVALID_PRINCIPAL_TYPE, "": ErrorCode.INVALID_PRINCIPAL_TYPE}
    wanted["User"] = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    for kind, error_code in wanted.items():
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind, owner_principal_name="root", max_lifetime_ms=-1
        )
        answer = await connection.request(request)
        assert (answer.error_code, answer.hmac) == (error_code, b"")
    await connection.close()
    take_all(secure.broker)
