"""The port of the authorizer, and what the gate asks it about.

`Authorizer` is one decision: may this principal, from this host, do this to that resource? The
broker has `AllowAll` today. `apis.access` declares what each API asks; `apis.gate` asks it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from floodmark.network.principal import Principal
from floodmark.wire.errors import ErrorCode


class Operation(IntEnum):
    """Kafka's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


THE_CLUSTER = Resource(ResourceKind.CLUSTER, "kafka-cluster")

DENIED = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceKind.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceKind.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of a denied request, by the kind of resource."""


class Authorizer(Protocol):
    """Decides without waiting and without side effects a client could see.

    After every change of ACLs it must end `Services.generation`: requests are authorized once and
    then prepared.
    """

    @property
    def allows_all(self) -> bool:
        """Whether there is nothing to ask: the gate is then skipped."""

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool: ...

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        """Whether there is at least one resource of this kind that it allows this on."""


class AllowAll:
    """A broker without ACLs."""

    allows_all = True

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        return True

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        return True


class Guard:
    """The authorizer's answers to one principal on one host."""

    __slots__ = ("_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host

    def allows(self, operation: Operation, resource: Resource) -> bool:
        return self._authorizer.allows(self._principal, self._host, operation, resource)

    def allows_any(self, operation: Operation, kind: ResourceKind) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, kind)
