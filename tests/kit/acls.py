"""ACLs for tests, and how to give them to a broker that nobody may administer yet."""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.security.acls import AccessRule, Acl, AclFilter
from floodmark.security.resources import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.testing.broker_thread import BrokerThread

ANONYMOUS = "User:ANONYMOUS"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOCKED = {"authorizer.class.name": STANDARD_AUTHORIZER}


def acl(
    operation: Operation,
    kind: ResourceKind,
    name: str = CLUSTER_NAME,
    *,
    prefixed: bool = False,
    deny: bool = False,
    principal: str = ANONYMOUS,
    host: str = "*",
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    rule = AccessRule(principal, host, operation, permission)
    return Acl(ResourcePattern(kind, name, pattern_type), rule)


def give(broker: BrokerThread, acls: Sequence[Acl]) -> None:
    """Past the APIs, which ask for rights themselves."""
    refusals = broker.call(broker.broker.controller.create_acls(acls))
    assert refusals == [None] * len(acls)


def take_all(broker: BrokerThread) -> None:
    broker.call(broker.broker.controller.delete_acls([AclFilter()]))
