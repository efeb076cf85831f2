"""The matrix for delegation tokens: what a user with no rights, with each single right and with a
denial may do with tokens of its own and of others, with us and with Apache Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from floodmark.security.acls import AccessRule, Acl
from floodmark.security.resources import (
    CLUSTER_NAME,
    Operation,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from floodmark.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from floodmark.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from floodmark.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from fuzz_kit.raw_client import RawClient
from kit.acls import LOCKED, give, take_all
from kit.locked_kafka import TOKEN_KEY, USERS_JAAS, locked_kafka, log_in, set_acls
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(200)]

MALLORY = "User:mallory"
OWNER = "alice"
RIGHTS = [
    (ResourceKind.USER, f"User:{OWNER}", Operation.CREATE_TOKENS),
    (ResourceKind.USER, f"User:{OWNER}", Operation.DESCRIBE_TOKENS),
    (ResourceKind.USER, f"User:{OWNER}", Operation.DESCRIBE),
    (ResourceKind.USER, "*", Operation.ALL),
    (ResourceKind.DELEGATION_TOKEN, "*", Operation.DESCRIBE),
    (ResourceKind.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION),
    (ResourceKind.CLUSTER, CLUSTER_NAME, Operation.ALL),
]


def right(
    kind: ResourceKind,
    name: str,
    operation: Operation,
    permission: PermissionType = PermissionType.ALLOW,
) -> Acl:
    return Acl(ResourcePattern(kind, name), AccessRule(MALLORY, "*", operation, permission))


ALL_RIGHTS = [
    right(ResourceKind.USER, "*", Operation.ALL),
    right(ResourceKind.DELEGATION_TOKEN, "*", Operation.ALL),
    right(ResourceKind.CLUSTER, CLUSTER_NAME, Operation.ALL),
]
SETS: dict[str, list[Acl]] = {
    "no rights": [],
    "all rights": ALL_RIGHTS,
    **{f"only {of[2].name} on {of[0].name} {of[1]}": [right(*of)] for of in RIGHTS},
    **{
        f"all but {of[2].name} on {of[0].name} {of[1]}": [
            *ALL_RIGHTS,
            right(*of, PermissionType.DENY),
        ]
        for of in RIGHTS
    },
}


SECOND_LOOKS = 20


class Side(NamedTuple):
    client: RawClient
    """Logged in as mallory."""
    allow: Callable[[Sequence[Acl]], None]
    hmac: bytes
    """Of a token that is not mallory's."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_tool("java", "mvn")
    folder: Path = tmp_path_factory.mktemp("kafka")
    settings = {
        **LOCKED,
        **TOKEN_KEY,
        "super.users": "User:admin",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS_JAAS,
    }
    with (
        BrokerThread(settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as ours,
        RawClient(broker.bootstrap_servers) as our_admin,
        locked_kafka(folder) as (_, address),
        RawClient(address) as kafkas,
        RawClient(address) as their_admin,
    ):

        def allow(acls: Sequence[Acl]) -> None:
            take_all(broker)
            give(broker, acls)

        yield (
            side(ours, our_admin, allow),
            side(kafkas, their_admin, lambda acls: set_acls(their_admin, acls)),
        )


def side(client: RawClient, admin: RawClient, allow: Callable[[Sequence[Acl]], None]) -> Side:
    log_in(admin)
    log_in(client, "mallory")
    made = admin.ask(create(owner=OWNER), 3)
    assert made.error_code == 0
    wait_for(lambda: bool(admin.ask(describe(OWNER), 3).tokens))
    return Side(client, allow, bytes(made.hmac))


def create(owner: str | None = None, renewer: str | None = None) -> CreateDelegationTokenRequest:
    renewers = [CreatableRenewers(principal_type=renewer, principal_name="bob")] if renewer else []
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=60_000)
    if owner:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return request


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    """Without an owner: all tokens."""
    wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners]
    return DescribeDelegationTokenRequest(owners=wanted or None)


def answers(side: Side) -> dict[str, Any]:
    requests: list[tuple[str, Any, int]] = [
        ("create for oneself", create(), 1),
        ("create for oneself", create(renewer="User"), 3),
        ("create with another kind of renewer", create(renewer="Group"), 3),
        ("create for another", create(owner=OWNER), 3),
        ("create for a third", create(owner="carol"), 3),
        ("renew of another", RenewDelegationTokenRequest(hmac=side.hmac, renew_period_ms=-1), 2),
        ("renew of nobody", RenewDelegationTokenRequest(hmac=b"x" * 64, renew_period_ms=-1), 1),
        (
            "expire of another",
            ExpireDelegationTokenRequest(hmac=side.hmac, expiry_time_period_ms=-1),
            2,
        ),
        ("describe all", describe(), 1),
        ("describe all", describe(), 3),
        ("describe another", describe(OWNER), 3),
        ("describe oneself", describe("mallory"), 2),
        ("describe several", describe("mallory", OWNER, "carol"), 3),
    ]
    return {
        f"{name} v{version}": seen(side.client.ask(request, version))
        for name, request, version in requests
    }


def seen(answer: Any) -> tuple[str, list[tuple[str, str]]]:
    """The error, and whose tokens are visible."""
    tokens = getattr(answer, "tokens", [])
    owners = {(one.principal_name, one.token_requester_principal_name) for one in tokens}
    return ErrorCode(answer.error_code).name, sorted(owners)


@pytest.mark.parametrize("name", SETS)
def test_tokens_are_given_and_shown_as_with_kafka(sides: tuple[Side, Side], name: str) -> None:
    for one in sides:
        one.allow(SETS[name])
        # Kafka's broker hears of tokens later than its controller answers.
        one.client.ask(create(), 1)
    ours, kafkas = sides
    wait_for(lambda: "mallory" in str(seen(kafkas.client.ask(describe("mallory"), 3))))
    found, expected = answers(ours), answers(kafkas)
    for _ in range(SECOND_LOOKS):
        if found == expected:
            break
        # The same again, for the last token made.
        expected = answers(kafkas)
    assert found == expected
