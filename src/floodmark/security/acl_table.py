"""Decides by ACLs: finds the rules for a resource and applies them. PURE.

Created by `apis.acl_authorizer` whenever ACLs change. Rules are indexed by literal name, by
wildcard and by each prefix length, so a decision does not scan all ACLs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from floodmark.security.acls import AccessRule, Acl, Acls
from floodmark.security.addresses import canonical_address
from floodmark.security.resources import (
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    Resource,
    ResourceKind,
    ResourcePattern,
)

ANYONE = "User:*"

IMPLIED_BY: Mapping[Operation, Collection[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations implied by others: permission for any of these suffices. A denial implies nothing."""


class Verdict(NamedTuple):
    """`rule` names the deciding rule, for the audit log."""

    is_allowed: bool
    rule: str


_SUPER_USER = Verdict(True, "SuperUser")
_DEFAULT = {True: Verdict(True, "DefaultAllow"), False: Verdict(False, "DefaultDeny")}


class AclTable:
    def __init__(
        self, acls: Acls, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False
    ) -> None:
        """`allow_if_no_acl` is Kafka's `allow.everyone.if.no.acl.found`."""
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        lengths: dict[ResourceKind, set[int]] = {}
        for kind, name, pattern_type in acls:
            if pattern_type is PatternType.PREFIXED:
                lengths.setdefault(kind, set()).add(len(name))
        self._prefix_lengths = {kind: sorted(of_kind) for kind, of_kind in lengths.items()}

    @property
    def acls(self) -> Acls:
        return self._acls

    def decide(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> Verdict:
        if principal in self._super_users:
            return _SUPER_USER
        allowing: Acl | None = None
        has_acls = False
        for pattern in self._patterns(resource):
            for rule in self._acls[pattern]:
                has_acls = True
                if not _concerns(rule, principal, host):
                    continue
                if rule.permission is PermissionType.DENY:
                    if rule.operation in (Operation.ALL, operation):
                        return Verdict(False, f"MatchingAcl(acl={Acl(pattern, rule)})")
                elif _allows(rule, operation):
                    allowing = Acl(pattern, rule)
        if allowing is not None:
            return Verdict(True, f"MatchingAcl(acl={allowing})")
        return _DEFAULT[self._allow_if_no_acl and not has_acls]

    def decide_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        """Whether the operation can be allowed on any resource of this kind.

        As in Kafka, implied operations do not count, and a denial of a longer prefix or of another
        literal name leaves something that is allowed.
        """
        if self.decide(principal, host, operation, Resource(kind, "hardcode")).is_allowed:
            return True
        allowed: set[ResourcePattern] = set()
        denied: set[ResourcePattern] = set()
        for pattern, rules in self._acls.items():
            for rule in rules if pattern.kind is kind else ():
                is_meant = rule.operation in (Operation.ALL, operation)
                if is_meant and _concerns(rule, principal, host):
                    chosen = denied if rule.permission is PermissionType.DENY else allowed
                    chosen.add(pattern)
        everything = ResourcePattern(kind, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(_leaves_some(denied, pattern) for pattern in allowed)

    def _patterns(self, resource: Resource) -> Iterator[ResourcePattern]:
        """The patterns with ACLs that match the resource."""
        acls, (kind, name) = self._acls, resource
        for length in self._prefix_lengths.get(kind, ()):
            if length > len(name):
                break
            prefixed = ResourcePattern(kind, name[:length], PatternType.PREFIXED)
            if prefixed in acls:
                yield prefixed
        literal = ResourcePattern(kind, name)
        if literal in acls:
            yield literal
        everything = ResourcePattern(kind, WILDCARD)
        if name != WILDCARD and everything in acls:
            yield everything


def _concerns(rule: AccessRule, principal: str, host: str) -> bool:
    """`host` is a canonical address. The rule's host is written as its author typed it."""
    if rule.principal not in (principal, ANYONE):
        return False
    return rule.host in (WILDCARD, host) or canonical_address(rule.host) == host


def _allows(rule: AccessRule, operation: Operation) -> bool:
    granted = rule.operation
    return granted in (Operation.ALL, operation) or granted in IMPLIED_BY.get(operation, ())


def _leaves_some(denied: Collection[ResourcePattern], allowed: ResourcePattern) -> bool:
    """Whether no denial covers everything this pattern allows."""
    kind, name, pattern_type = allowed
    if pattern_type is PatternType.LITERAL and allowed in denied:
        return False
    prefixes = (name[:length] for length in range(1, len(name) + 1))
    return not any(
        ResourcePattern(kind, prefix, PatternType.PREFIXED) in denied for prefix in prefixes
    )
