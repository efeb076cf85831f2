"""Decisions by ACLs: patterns, hosts, denials, implied operations, super users, defaults."""

from __future__ import annotations

import pytest

from floodmark.security.acl_table import AclTable
from floodmark.security.acls import AccessRule, Acl, Acls
from floodmark.security.resources import (
    THE_CLUSTER,
    Operation,
    PatternType,
    PermissionType,
    Resource,
    ResourceKind,
    ResourcePattern,
)

ALICE, HOST = "User:alice", "10.0.0.1"


def acl(
    name: str,
    operation: Operation = Operation.READ,
    *,
    kind: ResourceKind = ResourceKind.TOPIC,
    prefixed: bool = False,
    principal: str = ALICE,
    host: str = "*",
    deny: bool = False,
) -> Acl:
    return Acl(
        ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL),
        AccessRule(
            principal, host, operation, PermissionType.DENY if deny else PermissionType.ALLOW
        ),
    )


def table(*acls: Acl, super_users: tuple[str, ...] = (), allow_if_no_acl: bool = False) -> AclTable:
    rules: dict[ResourcePattern, set[AccessRule]] = {}
    for pattern, rule in acls:
        rules.setdefault(pattern, set()).add(rule)
    by_pattern: Acls = {pattern: frozenset(of) for pattern, of in rules.items()}
    return AclTable(by_pattern, super_users, allow_if_no_acl=allow_if_no_acl)


def may(
    decides: AclTable,
    topic: str,
    operation: Operation = Operation.READ,
    principal: str = ALICE,
    host: str = HOST,
) -> bool:
    resource = Resource(ResourceKind.TOPIC, topic)
    return decides.decide(principal, host, operation, resource).is_allowed


def test_without_acls_nobody_may_do_anything() -> None:
    assert not may(table(), "orders")
    assert table().decide(ALICE, HOST, Operation.ALTER, THE_CLUSTER).rule == "DefaultDeny"


@pytest.mark.parametrize(
    ("given", "allowed", "denied"),
    [
        (acl("orders"), ["orders"], ["orders2", "order", "*"]),
        (acl("ord", prefixed=True), ["ord", "orders"], ["or", "xord"]),
        (acl("*"), ["orders", "*"], []),
        (acl("*", prefixed=True), ["*", "*x"], ["orders"]),
    ],
)
def test_patterns(given: Acl, allowed: list[str], denied: list[str]) -> None:
    decides = table(given, acl("other", kind=ResourceKind.GROUP))
    assert [name for name in [*allowed, *denied] if may(decides, name)] == allowed


def test_a_right_is_for_its_principal_host_operation_and_kind_of_resource() -> None:
    decides = table(acl("orders", host=HOST))
    assert may(decides, "orders")
    assert not may(decides, "orders", host="10.0.0.2")
    assert not may(decides, "orders", principal="User:bob")
    assert not may(decides, "orders", principal="Group:alice")
    assert not may(decides, "orders", Operation.WRITE)
    group = Resource(ResourceKind.GROUP, "orders")
    assert not decides.decide(ALICE, HOST, Operation.READ, group).is_allowed


def test_any_user_is_every_principal() -> None:
    assert may(table(acl("orders", principal="User:*")), "orders", principal="User:bob")


@pytest.mark.parametrize(
    "denial",
    [
        acl("orders", deny=True),
        acl("o", deny=True, prefixed=True),
        acl("*", deny=True),
        acl("orders", Operation.ALL, deny=True),
        acl("orders", deny=True, principal="User:*"),
        acl("orders", deny=True, host=HOST),
    ],
)
def test_a_denial_wins_wherever_it_is(denial: Acl) -> None:
    decides = table(acl("orders"), acl("*"), acl("ord", prefixed=True), denial)
    assert not may(decides, "orders")


def test_a_denial_for_others_changes_nothing() -> None:
    decides = table(acl("orders"), acl("orders", deny=True, host="10.0.0.2"))
    assert may(decides, "orders")


@pytest.mark.parametrize(
    "granted", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL]
)
def test_describe_is_implied(granted: Operation) -> None:
    assert may(table(acl("orders", granted)), "orders", Operation.DESCRIBE)


def test_what_does_not_imply_describe() -> None:
    decides = table(acl("orders", Operation.CREATE), acl("orders", Operation.ALTER_CONFIGS))
    assert not may(decides, "orders", Operation.DESCRIBE)
    assert may(decides, "orders", Operation.DESCRIBE_CONFIGS)


def test_a_denial_implies_nothing() -> None:
    decides = table(acl("orders", Operation.DESCRIBE), acl("orders", Operation.READ, deny=True))
    assert may(decides, "orders", Operation.DESCRIBE)


def test_super_users_are_asked_nothing() -> None:
    decides = table(acl("orders", deny=True, principal="User:*"), super_users=("User:root",))
    assert may(decides, "orders", principal="User:root")
    assert not may(decides, "orders")


def test_everyone_may_use_what_no_acl_mentions_if_that_is_set() -> None:
    decides = table(acl("orders", principal="User:bob"), allow_if_no_acl=True)
    assert may(decides, "payments")
    assert not may(decides, "orders")
    decides = table(acl("pay", prefixed=True, principal="User:bob"), allow_if_no_acl=True)
    assert not may(decides, "payments")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("orders")], True),
        ([acl("ord", prefixed=True)], True),
        ([acl("*")], True),
        ([acl("orders", Operation.ALL)], True),
        ([acl("orders", host="10.9.9.9")], False),
        ([acl("orders", principal="User:bob")], False),
        ([acl("orders", Operation.WRITE)], False),
        ([acl("orders"), acl("orders", deny=True)], False),
        ([acl("orders"), acl("ord", prefixed=True, deny=True)], False),
        ([acl("orders"), acl("*", deny=True)], False),
        ([acl("orders"), acl("payments", deny=True)], True),
        ([acl("ord", prefixed=True), acl("orders", prefixed=True, deny=True)], True),
        ([acl("ord", prefixed=True), acl("o", prefixed=True, deny=True)], False),
        ([acl("*"), acl("ord", prefixed=True, deny=True)], True),
    ],
)
def test_whether_any_resource_is_allowed(acls: list[Acl], expected: bool) -> None:
    found = table(*acls).decide_any(ALICE, HOST, Operation.READ, ResourceKind.TOPIC)
    assert found is expected


def test_the_rule_that_decided_is_named() -> None:
    decides = table(acl("orders"))
    verdict = decides.decide(ALICE, HOST, Operation.READ, Resource(ResourceKind.TOPIC, "orders"))
    assert verdict.rule == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=orders, "
        "patternType=LITERAL, principal=User:alice, host=*, operation=READ, permissionType=ALLOW])"
    )


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::0:1", "2001:db8::1"),
    ],
)
def test_a_denied_address_is_denied_however_it_is_written(written: str, host: str) -> None:
    decides = table(acl("orders"), acl("orders", host=written, deny=True))
    assert not may(decides, "orders", host=host)
    assert may(decides, "orders", host="10.0.0.2")
