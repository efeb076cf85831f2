"""The nodes of ACLs are Kafka 3.9's."""

from __future__ import annotations

import json

import pytest

from floodmark.metadata import acl_nodes
from floodmark.metadata.store import Node
from floodmark.security.acls import AccessRule
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)

KAFKAS = (
    '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
    '"operation":"DescribeConfigs","host":"*"}]}'
)
RULE = AccessRule("User:alice", "*", Operation.DESCRIBE_CONFIGS, PermissionType.ALLOW)


def test_the_json_is_kafkas() -> None:
    assert acl_nodes.decode_rules(KAFKAS.encode()) == {RULE}
    assert json.loads(acl_nodes.encode_rules(frozenset({RULE}))) == json.loads(KAFKAS)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (ResourcePattern(ResourceKind.TOPIC, "orders"), "/kafka-acl/Topic/orders"),
        (
            ResourcePattern(ResourceKind.TRANSACTIONAL_ID, "tx", PatternType.PREFIXED),
            "/kafka-acl-extended/prefixed/TransactionalId/tx",
        ),
        (
            ResourcePattern(ResourceKind.CLUSTER, "kafka-cluster"),
            "/kafka-acl/Cluster/kafka-cluster",
        ),
        (ResourcePattern(ResourceKind.GROUP, "a/b%2Ec"), "/kafka-acl/Group/a%2Fb%252Ec"),
        (ResourcePattern(ResourceKind.GROUP, ".."), "/kafka-acl/Group/%2E%2E"),
        (ResourcePattern(ResourceKind.USER, "User:bob"), "/kafka-acl/User/User:bob"),
    ],
)
def test_paths(pattern: ResourcePattern, path: str) -> None:
    assert acl_nodes.acl_path(pattern) == path
    assert acl_nodes.pattern_of(path) == pattern


def test_folders_hold_no_acls() -> None:
    nodes = {path: Node(b"", 0, 0, False) for path in acl_nodes.PERSISTENT_PATHS}
    assert acl_nodes.decode_acls(nodes) == {}


def test_change_notifications_are_kafkas() -> None:
    literal = acl_nodes.change_notification(ResourcePattern(ResourceKind.TOPIC, "a:b"))
    assert literal == ("/kafka-acl-changes/acl_changes_", b"TOPIC:a:b", False, True)
    prefixed = acl_nodes.change_notification(
        ResourcePattern(ResourceKind.GROUP, "g", PatternType.PREFIXED)
    )
    assert prefixed.path == "/kafka-acl-extended-changes/acl_changes_"
    assert json.loads(prefixed.data) == {
        "version": 1,
        "resourceType": "GROUP",
        "name": "g",
        "patternType": "PREFIXED",
    }
