"""`floodmark acl` and `floodmark quota`: what they send, print and refuse."""

import json
from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from kit.acls import ANONYMOUS, LOCKED, take_all

from .conftest import Cli


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    settings = {**LOCKED, "super.users": ANONYMOUS}
    with BrokerThread(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_acls(broker: BrokerThread) -> None:
    take_all(broker)


def listed(cli: Cli, *arguments: str) -> list[tuple[str, ...]]:
    done = cli("acl", "list", "-o", "json", *arguments)
    assert done.code == 0, done.err
    return [tuple(one.values()) for one in json.loads(done.out)]


ALICE = ("--allow-principal", "User:alice")


def test_one_operation_for_several_resources(cli: Cli) -> None:
    on = ("--topic", "orders", "--topic", "payments", "--operation", "read")
    assert cli("acl", "add", *ALICE, "--allow-host", "10.0.0.1", *on).code == 0
    assert listed(cli) == [
        ("TOPIC", "orders", "LITERAL", "User:alice", "10.0.0.1", "READ", "ALLOW"),
        ("TOPIC", "payments", "LITERAL", "User:alice", "10.0.0.1", "READ", "ALLOW"),
    ]


def test_the_bundle_of_a_producer(cli: Cli) -> None:
    on = ("--topic", "ord", "--resource-pattern-type", "prefixed", "--transactional-id", "tx")
    assert cli("acl", "add", *ALICE, "--producer", "--idempotent", *on).code == 0
    assert [
        (kind, name, pattern, operation) for kind, name, pattern, _, _, operation, _ in listed(cli)
    ] == [
        ("TOPIC", "ord", "PREFIXED", "WRITE"),
        ("TOPIC", "ord", "PREFIXED", "CREATE"),
        ("TOPIC", "ord", "PREFIXED", "DESCRIBE"),
        ("CLUSTER", "kafka-cluster", "LITERAL", "IDEMPOTENT_WRITE"),
        ("TRANSACTIONAL_ID", "tx", "PREFIXED", "WRITE"),
        ("TRANSACTIONAL_ID", "tx", "PREFIXED", "DESCRIBE"),
    ]


def test_the_bundle_of_a_consumer_is_added_and_removed(cli: Cli) -> None:
    bundle = (*ALICE, "--consumer", "--topic", "orders", "--group", "billing")
    assert cli("acl", "add", *bundle).code == 0
    assert cli("acl", "add", "--deny-principal", "User:eve", "--topic", "orders").code == 0
    assert {(one[0], one[5]) for one in listed(cli, "--principal", "User:alice")} == {
        ("TOPIC", "READ"),
        ("TOPIC", "DESCRIBE"),
        ("GROUP", "READ"),
    }
    assert cli("acl", "remove", *bundle, "--yes").code == 0
    assert listed(cli) == [("TOPIC", "orders", "LITERAL", "User:eve", "*", "ALL", "DENY")]
    done = cli("acl", "remove", "--topic", "orders", "--yes")
    assert done.out.startswith("removed:")
    assert listed(cli) == []


def test_what_applies_to_a_topic_is_found_by_match(cli: Cli) -> None:
    prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    cli("acl", "add", *ALICE, *prefixed)
    cli("acl", "add", *ALICE, "--topic", "*")
    on = ("--topic", "orders")
    assert listed(cli, *on) == []
    assert {one[1] for one in listed(cli, *on, "--resource-pattern-type", "match")} == {"ord", "*"}
    done = cli("acl", "list")
    assert done.out.splitlines()[0].split()[:3] == ["RESOURCE", "NAME", "PATTERN"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["add", "--topic", "t"], "--allow-principal"),
        (["add", *ALICE, "--operation", "read"], "name a resource"),
        (["add", *ALICE, "--producer"], "--producer needs a --topic"),
        (["add", *ALICE, "--consumer", "--topic", "t"], "--consumer needs"),
        (["remove", "--yes"], "name a resource"),
        (
            ["add", *ALICE, "--topic", "t", "--resource-pattern-type", "match"],
            "literal or prefixed",
        ),
    ],
)
def test_what_the_acl_command_cannot_mean(cli: Cli, arguments: list[str], text: str) -> None:
    done = cli("acl", *arguments)
    assert done.code == 2
    assert text in done.err


def test_a_principal_without_a_type_is_refused_by_the_broker(cli: Cli) -> None:
    done = cli("acl", "add", "--allow-principal", "alice", "--topic", "t")
    assert done.code == 1
    assert "Could not parse principal" in done.err


def quotas(cli: Cli, *arguments: str) -> list[dict[str, object]]:
    done = cli("quota", "describe", "-o", "json", *arguments)
    assert done.code == 0, done.err
    found: list[dict[str, object]] = json.loads(done.out)
    return found


def test_quotas_are_set_described_and_deleted(cli: Cli) -> None:
    rate = "producer_byte_rate=1024"
    assert cli("quota", "alter", "--user", "alice", "--client-default", rate).code == 0
    done = cli("quota", "alter", "--ip-default", "connection_creation_rate=5")
    assert done.out == "quotas of ip <default> altered\n"
    assert quotas(cli, "--user", "alice") == [
        {"user": "alice", "client-id": "<default>", "quotas": {"producer_byte_rate": 1024.0}}
    ]
    assert quotas(cli, "--user", "alice", "--strict") == []
    lines = [line.split() for line in cli("quota", "describe").out.splitlines()]
    assert lines == [
        ["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"],
        ["-", "-", "<default>", "connection_creation_rate", "5"],
        ["alice", "<default>", "-", "producer_byte_rate", "1024"],
    ]
    delete = ("--delete", "producer_byte_rate")
    assert cli("quota", "alter", "--user", "alice", "--client-default", *delete).code == 0
    assert quotas(cli, "--user", "alice") == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["alter", "producer_byte_rate=1"], 2, "name an entity"),
        (["alter", "--user", "a"], 2, "name a change"),
        (["alter", "--user", "a", "producer_byte_rate=much"], 2, "quota=number"),
        (
            ["alter", "--user", "a", "--user-default", "request_percentage=1"],
            2,
            "mutually exclusive",
        ),
        (["alter", "--user", "a", "bytes=1"], 1, "Invalid configuration key bytes"),
    ],
)
def test_what_the_quota_command_refuses(
    cli: Cli, arguments: list[str], code: int, text: str
) -> None:
    done = cli("quota", *arguments)
    assert done.code == code
    assert text in done.err


def test_a_refusal_of_several_acls_is_told_once_with_a_way_out(cli: Cli) -> None:
    done = cli("acl", "add", "--allow-principal", "alice", "--producer", "--topic", "t")
    assert done.code == 1
    assert done.err.count("was not added") == 1
    assert "try: write principals as User:NAME" in done.err


def test_removing_acls_without_a_confirmation_says_how_to_go_on(cli: Cli) -> None:
    assert cli("acl", "add", *ALICE, "--operation", "read", "--topic", "t").code == 0
    done = cli("acl", "remove", "--topic", "t")
    assert done.code == 1
    assert "nothing was removed" in done.err
    assert "try: add --yes" in done.err
    assert len(listed(cli)) == 1
    assert cli("acl", "remove", "--topic", "t", stdin=b"y\n").code == 0
    assert listed(cli) == []


def test_a_misspelt_quota_is_refused_with_a_suggestion(cli: Cli) -> None:
    done = cli("quota", "alter", "--user", "alice", "producer_byte_rat=1")
    assert done.code == 2
    assert "did you mean producer_byte_rate?" in done.err
