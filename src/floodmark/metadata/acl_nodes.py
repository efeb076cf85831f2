"""Paths and JSON of ACLs as in Kafka 3.9, also used by the embedded store. PURE.

One node per resource pattern: `/kafka-acl/Topic/orders` for a literal name and
`/kafka-acl-extended/prefixed/Topic/ord` for a prefix. Kafka's brokers watch the change nodes.
Used by the loader and by `controller.acls`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from floodmark.metadata.store import Create, Node
from floodmark.security.acls import AccessRule, Acls
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
    pascal_case,
)

LITERAL_ACLS = "/kafka-acl"
EXTENDED_ACLS = "/kafka-acl-extended"
_PREFIXED_ACLS = f"{EXTENDED_ACLS}/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
EXTENDED_CHANGES = "/kafka-acl-extended-changes"
ACL_ROOTS = (LITERAL_ACLS, EXTENDED_ACLS)
CHANGE_FOLDERS = (LITERAL_CHANGES, EXTENDED_CHANGES)

_KINDS = {
    pascal_case(kind): kind
    for kind in ResourceKind
    if kind not in (ResourceKind.UNKNOWN, ResourceKind.ANY)
}
_OPERATIONS = {pascal_case(operation): operation for operation in Operation}
_PERMISSIONS = {pascal_case(permission): permission for permission in PermissionType}
_JSON = json.JSONEncoder(separators=(",", ":"))
_DOTS = {".": "%2E", "..": "%2E%2E"}

PERSISTENT_PATHS = (
    LITERAL_ACLS,
    *(f"{LITERAL_ACLS}/{kind}" for kind in _KINDS),
    EXTENDED_ACLS,
    _PREFIXED_ACLS,
    *(f"{_PREFIXED_ACLS}/{kind}" for kind in _KINDS),
    *CHANGE_FOLDERS,
)


def acl_path(pattern: ResourcePattern) -> str:
    kind, name, pattern_type = pattern
    folder = LITERAL_ACLS if pattern_type is PatternType.LITERAL else _PREFIXED_ACLS
    # Kafka does not escape names, and loses ACLs of groups with a slash in the name.
    name = _DOTS.get(name) or name.replace("%", "%25").replace("/", "%2F")
    return f"{folder}/{pascal_case(kind)}/{name}"


def pattern_of(path: str) -> ResourcePattern | None:
    """The pattern of a path's ACLs; None for the parent folders."""
    parts = path.split("/")
    if parts[1] == LITERAL_ACLS[1:] and len(parts) == 4:
        pattern_type = PatternType.LITERAL
    elif path.startswith(f"{_PREFIXED_ACLS}/") and len(parts) == 5:
        pattern_type = PatternType.PREFIXED
    else:
        return None
    name = parts[-1].replace("%2E", ".").replace("%2F", "/").replace("%25", "%")
    return ResourcePattern(_KINDS[parts[-2]], name, pattern_type)


def encode_rules(rules: frozenset[AccessRule]) -> bytes:
    acls = [
        {
            "principal": rule.principal,
            "permissionType": pascal_case(rule.permission),
            "operation": pascal_case(rule.operation),
            "host": rule.host,
        }
        for rule in sorted(rules)
    ]
    return _JSON.encode({"version": 1, "acls": acls}).encode()


def decode_rules(data: bytes) -> frozenset[AccessRule]:
    return frozenset(
        AccessRule(
            acl["principal"],
            acl["host"],
            _OPERATIONS[acl["operation"]],
            _PERMISSIONS[acl["permissionType"]],
        )
        for acl in json.loads(data)["acls"]
    )


def decode_acls(nodes: Mapping[str, Node]) -> Acls:
    """Decodes the nodes at and below `ACL_ROOTS`."""
    acls: dict[ResourcePattern, frozenset[AccessRule]] = {}
    for path, node in nodes.items():
        pattern = pattern_of(path)
        if pattern is not None:
            acls[pattern] = decode_rules(node.data)
    return acls


def change_notification(pattern: ResourcePattern) -> Create:
    """The node that tells Kafka's brokers about changed ACLs of a pattern."""
    kind, name, pattern_type = pattern
    if pattern_type is PatternType.LITERAL:
        folder, data = LITERAL_CHANGES, f"{kind.name}:{name}"
    else:
        folder = EXTENDED_CHANGES
        data = _JSON.encode(
            {
                "version": 1,
                "resourceType": kind.name,
                "name": name,
                "patternType": pattern_type.name,
            }
        )
    return Create(f"{folder}/acl_changes_", data.encode(), sequence=True)
