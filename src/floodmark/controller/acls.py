"""Decisions: create and delete ACLs. PURE. Refusals use Kafka 4.3's wording.

Rules are stored by resource pattern, one node each. A pattern without rules has no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.metadata import acl_nodes
from floodmark.metadata.image import ImageChange
from floodmark.metadata.store import Create, Delete, Operation, SetData
from floodmark.security.acls import AccessRule, Acl, AclFilter, why_invalid
from floodmark.security.resources import ResourcePattern
from floodmark.wire.errors import ErrorCode

Answer = TypeVar("Answer")

_Rules = dict[ResourcePattern, frozenset[AccessRule]]
_NO_RULES: frozenset[AccessRule] = frozenset()

MAX_MATCHES_PER_REQUEST = 10_000
"""As in Kafka: one request must not delete more. The matches of all its filters count."""

_TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)


def create_acls(view: View, wanted: Sequence[Acl]) -> Decision[list[Refusal | None]]:
    """None for each ACL that exists afterwards, whether new or not."""
    answers: list[Refusal | None] = []
    changed: _Rules = {}
    for acl in wanted:
        reason = why_invalid(acl)
        if reason is not None:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, reason))
            continue
        answers.append(None)
        pattern, rule = acl
        rules = changed.get(pattern) or view.image.acls.get(pattern, _NO_RULES)
        if rule not in rules:
            changed[pattern] = rules | {rule}
    return _decide(view, answers, changed)


def delete_acls(view: View, filters: Sequence[AclFilter]) -> Decision[list[list[Acl] | Refusal]]:
    """The ACLs each filter matched. Several filters may match the same one."""
    matches: dict[AclFilter, list[Acl] | Refusal] = {}
    answers: list[list[Acl] | Refusal] = []
    matched = 0
    for filter_ in filters:
        if filter_ not in matches:
            matches[filter_] = _matches(view, filter_)
        found = matches[filter_]
        matched += len(found) if isinstance(found, list) else 0
        if matched > MAX_MATCHES_PER_REQUEST:
            return Decision([_TOO_MANY for _ in filters])
        answers.append(found)
    changed: _Rules = {}
    for found in matches.values():
        for pattern, rule in found if isinstance(found, list) else ():
            changed[pattern] = changed.get(pattern, view.image.acls[pattern]) - {rule}
    return _decide(view, answers, changed)


def _matches(view: View, filter_: AclFilter) -> list[Acl] | Refusal:
    reason = filter_.why_invalid()
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    return list(filter_.find(view.image.acls))


def _decide(view: View, answer: list[Answer], changed: _Rules) -> Decision[list[Answer]]:
    operations = [_write(view, pattern, rules) for pattern, rules in changed.items()]
    change = ImageChange(acls={pattern: rules or None for pattern, rules in changed.items()})
    return Decision(answer, operations, change)


def _write(view: View, pattern: ResourcePattern, rules: frozenset[AccessRule]) -> Operation:
    path = acl_nodes.acl_path(pattern)
    if not rules:
        return Delete(path)
    data = acl_nodes.encode_rules(rules)
    return SetData(path, data) if pattern in view.image.acls else Create(path, data)
