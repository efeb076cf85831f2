"""Decisions about ACLs."""

from __future__ import annotations

from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller.acls import MAX_MATCHES_PER_REQUEST, delete_acls
from floodmark.controller.decision import Refusal, View
from floodmark.metadata.image import MetadataImage
from floodmark.security.acls import AccessRule, AclFilter
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.wire.errors import ErrorCode

RULE = AccessRule("User:alice", "*", Operation.READ, PermissionType.ALLOW)


def view_of(topics: int) -> View:
    patterns = [
        ResourcePattern(ResourceKind.TOPIC, f"t{number}", PatternType.LITERAL)
        for number in range(topics)
    ]
    image = MetadataImage(acls={pattern: frozenset({RULE}) for pattern in patterns})
    return View(image, BrokerConfig.load({}), lambda below: 0, lambda: UUID(int=1))


def test_every_filter_is_answered_though_the_first_has_deleted_all() -> None:
    decision = delete_acls(view_of(3), [AclFilter(), AclFilter(), AclFilter(name="t1")])
    assert [len(found) for found in decision.answer] == [3, 3, 1]
    assert len(decision.operations) == 3


def test_a_filter_that_is_repeated_until_it_matches_too_much_deletes_nothing() -> None:
    """Otherwise 4 KB of one filter would be answered with a gigabyte."""
    view = view_of(100)
    repeats = MAX_MATCHES_PER_REQUEST // 100
    assert len(delete_acls(view, [AclFilter()] * repeats).operations) == 100
    refused = delete_acls(view, [AclFilter()] * (repeats + 1))
    assert not refused.operations
    assert {type(answer) for answer in refused.answer} == {Refusal}
    assert {answer.error_code for answer in refused.answer} == {ErrorCode.POLICY_VIOLATION}
