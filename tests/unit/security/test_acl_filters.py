"""Filters find ACLs as Kafka's do; what cannot be an ACL is refused in Kafka's words."""

from __future__ import annotations

import pytest

from floodmark.security.acls import AccessRule, Acl, AclFilter, why_invalid
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)

TOPIC = ResourceKind.TOPIC
RULE = AccessRule("User:alice", "*", Operation.READ, PermissionType.ALLOW)
LITERAL = ResourcePattern(TOPIC, "orders")
PREFIXED = ResourcePattern(TOPIC, "ord", PatternType.PREFIXED)
WILDCARD = ResourcePattern(TOPIC, "*")
GROUP = ResourcePattern(ResourceKind.GROUP, "orders")
ACLS = {pattern: frozenset({RULE}) for pattern in (LITERAL, PREFIXED, WILDCARD, GROUP)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {LITERAL, PREFIXED, WILDCARD, GROUP}),
        (AclFilter(TOPIC), {LITERAL, PREFIXED, WILDCARD}),
        (AclFilter(TOPIC, "orders"), {LITERAL}),
        (AclFilter(TOPIC, "orders", PatternType.LITERAL), {LITERAL}),
        (AclFilter(TOPIC, "orders", PatternType.PREFIXED), set()),
        (AclFilter(TOPIC, "ord", PatternType.PREFIXED), {PREFIXED}),
        (AclFilter(TOPIC, "orders", PatternType.MATCH), {LITERAL, PREFIXED, WILDCARD}),
        (AclFilter(TOPIC, "payments", PatternType.MATCH), {WILDCARD}),
        (AclFilter(TOPIC, None, PatternType.MATCH), {LITERAL, PREFIXED, WILDCARD}),
        (AclFilter(TOPIC, None, PatternType.PREFIXED), {PREFIXED}),
        (AclFilter(name="orders"), {LITERAL, GROUP}),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=Operation.WRITE), set()),
        (AclFilter(permission=PermissionType.DENY), set()),
        (AclFilter(TOPIC, "orders", PatternType.ANY, *RULE), {LITERAL}),
    ],
)
def test_what_a_filter_finds(wanted: AclFilter, found: set[ResourcePattern]) -> None:
    assert {acl.pattern for acl in wanted.find(ACLS)} == found


@pytest.mark.parametrize(
    ("pattern", "rule", "reason"),
    [
        (LITERAL, RULE, None),
        (ResourcePattern(ResourceKind.CLUSTER, "kafka-cluster"), RULE, None),
        (
            ResourcePattern(ResourceKind.CLUSTER, "other"),
            RULE,
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (ResourcePattern(TOPIC, ""), RULE, "Invalid empty resource name"),
        (ResourcePattern(ResourceKind.ANY, "x"), RULE, "Invalid resourceType ANY"),
        (ResourcePattern(TOPIC, "x", PatternType.MATCH), RULE, "Invalid patternType MATCH"),
        (LITERAL, RULE._replace(operation=Operation.ANY), "Invalid operation ANY"),
        (LITERAL, RULE._replace(permission=PermissionType.ANY), "Invalid permissionType ANY"),
        (
            LITERAL,
            RULE._replace(principal="alice"),
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
    ],
)
def test_what_cannot_be_created(
    pattern: ResourcePattern, rule: AccessRule, reason: str | None
) -> None:
    assert why_invalid(Acl(pattern, rule)) == reason


def test_a_filter_with_an_unknown_element_is_invalid() -> None:
    assert AclFilter(ResourceKind.UNKNOWN).why_invalid() == "Unknown patternFilter."
    assert AclFilter(operation=Operation.UNKNOWN).why_invalid() == "Unknown entryFilter."
    assert AclFilter().why_invalid() is None
