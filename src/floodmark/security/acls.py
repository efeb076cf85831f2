"""ACLs and ACL filters. PURE.

An ACL is a `ResourcePattern` with an `AccessRule`. The metadata image stores rules by pattern, as
Kafka's nodes do. `security.acl_table` decides by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from floodmark.security.resources import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)


class AccessRule(NamedTuple):
    """Who may or may not do what from where. The principal is `User:name`; `User:*` is anyone."""

    principal: str
    host: str
    operation: Operation
    permission: PermissionType


class Acl(NamedTuple):
    pattern: ResourcePattern
    rule: AccessRule

    def __str__(self) -> str:
        """In the format of Kafka's audit log."""
        (kind, name, pattern_type), rule = self
        return (
            f"StandardAcl[resourceType={kind.name}, resourceName={name}, "
            f"patternType={pattern_type.name}, principal={rule.principal}, host={rule.host}, "
            f"operation={rule.operation.name}, permissionType={rule.permission.name}]"
        )


Acls: TypeAlias = Mapping[ResourcePattern, frozenset[AccessRule]]

_SPECIFIC_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
_SPECIFIC_PERMISSIONS = (PermissionType.DENY, PermissionType.ALLOW)


def why_invalid(acl: Acl) -> str | None:
    """Why this ACL is invalid, in Kafka's wording; None if it is valid."""
    (kind, name, pattern_type), rule = acl
    if kind is ResourceKind.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    if kind in (ResourceKind.UNKNOWN, ResourceKind.ANY):
        return f"Invalid resourceType {kind.name}"
    if pattern_type not in _SPECIFIC_PATTERNS:
        return f"Invalid patternType {pattern_type.name}"
    if rule.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {rule.operation.name}"
    if rule.permission not in _SPECIFIC_PERMISSIONS:
        return f"Invalid permissionType {rule.permission.name}"
    if ":" not in rule.principal:
        return (
            f"Could not parse principal from `{rule.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


class AclFilter(NamedTuple):
    """Finds ACLs. None and `ANY` match everything."""

    kind: ResourceKind = ResourceKind.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def why_invalid(self) -> str | None:
        if ResourceKind.UNKNOWN is self.kind or PatternType.UNKNOWN is self.pattern_type:
            return "Unknown patternFilter."
        if Operation.UNKNOWN is self.operation or PermissionType.UNKNOWN is self.permission:
            return "Unknown entryFilter."
        return None

    def find(self, acls: Acls) -> Iterator[Acl]:
        for pattern, rules in acls.items():
            if self._matches_pattern(pattern):
                yield from (Acl(pattern, rule) for rule in sorted(rules) if self._matches(rule))

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.kind not in (ResourceKind.ANY, pattern.kind):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def _matches(self, rule: AccessRule) -> bool:
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (PermissionType.ANY, rule.permission)
        )
