"""Quotas and SCRAM credentials: kept, told, and still there after a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from floodmark.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from floodmark.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from floodmark.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from fuzz_kit.raw_client import RawClient

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
SHA_256, SHA_512 = 1, 2
RATE = "producer_byte_rate"

Entity = dict[str, str | None]


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def alter(client: RawClient, entity: Entity, version: int = 1, **quotas: float | None) -> int:
    entry = RequestEntryData(
        entity=[RequestEntityData(entity_type=t, entity_name=n) for t, n in entity.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    [answer] = client.ask(AlterClientQuotasRequest(entries=[entry]), version).entries
    assert {part.entity_type: part.entity_name for part in answer.entity} == entity
    return int(answer.error_code)


def component(entity_type: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


def described(
    client: RawClient, *components: ComponentData, strict: bool = False, version: int = 1
) -> list[tuple[Entity, dict[str, float]]]:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    response = client.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "entity",
    [
        {"user": "ann"},
        {"user": None},
        {"client-id": "a/b c.é"},
        {"user": "ann", "client-id": None},
        {"user": None, "client-id": ".."},
    ],
)
def test_a_quota_is_kept_as_it_was_set(client: RawClient, entity: Entity, version: int) -> None:
    assert alter(client, entity, version, **{RATE: 1024.0, "request_percentage": 12.5}) == 0
    assert described(client, version=version) == [
        (entity, {RATE: 1024.0, "request_percentage": 12.5})
    ]
    assert alter(client, entity, version, **{RATE: None, "request_percentage": None}) == 0
    assert described(client, version=version) == []


def test_addresses_have_quotas_of_their_own(client: RawClient) -> None:
    assert alter(client, {"ip": "10.0.0.1"}, connection_creation_rate=7.0) == 0
    assert described(client, component("ip", SPECIFIED)) == [
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0})
    ]
    assert alter(client, {"ip": "nowhere at all"}, connection_creation_rate=7.0) != 0
    assert alter(client, {"ip": "10.0.0.1", "user": "ann"}, connection_creation_rate=7.0) != 0


def test_a_filter_finds_what_it_names(client: RawClient) -> None:
    everything: list[Entity] = [
        {"user": "ann"},
        {"user": None},
        {"user": "ann", "client-id": "c"},
        {"user": "ann", "client-id": "d"},
        {"client-id": "c"},
    ]
    for entity in everything:
        assert alter(client, entity, consumer_byte_rate=1.0) == 0

    def found(*components: ComponentData, strict: bool = False) -> list[int]:
        answers = described(client, *components, strict=strict)
        return sorted(everything.index(entity) for entity, _ in answers)

    assert found() == [0, 1, 2, 3, 4]
    assert found(component("user", EXACT, "ann")) == [0, 2, 3]
    assert found(component("user", EXACT, "ann"), strict=True) == [0]
    assert found(component("user", DEFAULT)) == [1]
    assert found(component("user", SPECIFIED), component("client-id", SPECIFIED)) == [2, 3]
    assert found(component("client-id", EXACT, "c")) == [2, 4]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("user", EXACT)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT, "ann")], ErrorCode.INVALID_REQUEST),
        ([component("user", 9)], ErrorCode.INVALID_REQUEST),
        ([component("", SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT), component("user", SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT), component("ip", SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([component("moon", SPECIFIED)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_without_sense_is_refused(
    client: RawClient, components: list[ComponentData], code: ErrorCode
) -> None:
    response = client.ask(DescribeClientQuotasRequest(components=components), 1)
    assert (response.error_code, response.entries) == (code, None)


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, float("nan"), float("inf"), 1e19])
def test_a_rate_in_bytes_is_a_whole_number_above_nothing(client: RawClient, value: float) -> None:
    assert alter(client, {"user": "ann"}, **{RATE: value}) == ErrorCode.INVALID_REQUEST
    assert described(client) == []


@pytest.mark.parametrize("entity", [{}, {"user": ""}, {"moon": "full"}])
def test_an_entity_without_sense_is_refused(client: RawClient, entity: Entity) -> None:
    assert alter(client, entity, **{RATE: 1.0}) == ErrorCode.INVALID_REQUEST


def test_a_mere_question_sets_no_quota(client: RawClient) -> None:
    entry = RequestEntryData(
        entity=[RequestEntityData(entity_type="user", entity_name="ann")],
        ops=[OpData(key=RATE, value=1.0)],
    )
    client.ask(AlterClientQuotasRequest(entries=[entry], validate_only=True), 1)
    assert described(client) == []


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> Any:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=b"salted password",
    )


def change(client: RawClient, *changes: Any) -> dict[str, int]:
    response = client.ask(
        AlterUserScramCredentialsRequest(
            deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
            upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
        ),
        0,
    )
    return {result.user: int(result.error_code) for result in response.results}


def known(client: RawClient, *users: str) -> dict[str, Any]:
    """Mechanisms and iterations by user, or the error."""
    asked = [UserName(name=user) for user in users] or None
    response = client.ask(DescribeUserScramCredentialsRequest(users=asked), 0)
    assert response.error_code == ErrorCode.NONE
    return {
        result.user: result.error_code
        or {info.mechanism: info.iterations for info in result.credential_infos}
        for result in response.results
    }


def test_credentials_are_kept_by_user_and_mechanism(client: RawClient) -> None:
    assert known(client) == {}
    assert change(client, upsertion("ann"), upsertion("bob", SHA_512, 8192)) == {"ann": 0, "bob": 0}
    assert change(client, upsertion("ann", SHA_512, 5000)) == {"ann": 0}
    assert known(client) == {"ann": {SHA_256: 4096, SHA_512: 5000}, "bob": {SHA_512: 8192}}
    assert alter(client, {"user": "ann"}, **{RATE: 5.0}) == 0
    assert change(client, ScramCredentialDeletion(name="ann", mechanism=SHA_256)) == {"ann": 0}
    assert known(client, "ann") == {"ann": {SHA_512: 5000}}
    assert known(client, "eve") == {"eve": ErrorCode.RESOURCE_NOT_FOUND}
    assert known(client, "ann", "ann") == {"ann": ErrorCode.DUPLICATE_RESOURCE}


def test_a_bad_change_of_credentials_stops_no_other(client: RawClient) -> None:
    answers = change(
        client,
        ScramCredentialDeletion(name="nobody", mechanism=SHA_256),
        upsertion("weak", iterations=4095),
        upsertion("slow", iterations=16385),
        upsertion("odd", mechanism=9),
        upsertion(""),
        upsertion("twice"),
        upsertion("twice", SHA_512),
        upsertion("good"),
    )
    assert answers == {
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "weak": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "slow": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "good": ErrorCode.NONE,
    }
    assert list(known(client)) == ["good"]


def test_quotas_and_credentials_outlive_the_broker(tmp_path: Path) -> None:
    entities: list[Entity] = [{"ip": None}, {"user": "a.b/c", "client-id": "d e"}]
    with BrokerThread(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert alter(client, entities[0], connection_creation_rate=3.0) == 0
        assert alter(client, entities[1], **{RATE: 10.0}) == 0
        assert change(client, upsertion("a.b/c")) == {"a.b/c": 0}
    with BrokerThread(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert [entity for entity, _ in described(client)] == entities
        assert known(client) == {"a.b/c": {SHA_256: 4096}}
        # The nodes above it are there already.
        assert alter(client, {"user": "a.b/c", "client-id": "f"}, **{RATE: 10.0}) == 0
