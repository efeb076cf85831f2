"""The port of the authorizer, and what the gate asks it about.

`Authorizer` is one decision: may this principal, from this host, do this to that resource? A
broker without ACLs has `AllowAll`, another one `apis.acl_authorizer`. `apis.access` declares what
each API asks; `apis.gate` asks it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from floodmark.network.principal import Principal
from floodmark.security.resources import THE_CLUSTER, Operation, Resource, ResourceKind
from floodmark.wire.errors import ErrorCode

__all__ = [
    "DENIED",
    "THE_CLUSTER",
    "AllowAll",
    "Authorizer",
    "Guard",
    "Operation",
    "Resource",
    "ResourceKind",
]

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

    @property
    def audits_allowed(self) -> bool:
        """Whether `audit` wants to know of allowed requests as well."""

    def audit(
        self,
        request: IntEnum,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
    ) -> None:
        """Logs a decision on what a client explicitly asked for."""


class AllowAll:
    """A broker without ACLs."""

    allows_all = True
    audits_allowed = False

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        return True

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        return True

    def audit(
        self,
        request: IntEnum,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
    ) -> None: ...


class Guard:
    """The authorizer's answers to one request of one principal on one host."""

    __slots__ = ("_authorizer", "_host", "_principal", "_request")

    def __init__(
        self, authorizer: Authorizer, principal: Principal, host: str, request: IntEnum
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._request = request

    def allows(self, operation: Operation, resource: Resource) -> bool:
        """For what the client asked for: the audit log has the decision."""
        authorizer, principal, host = self._authorizer, self._principal, self._host
        is_allowed = authorizer.allows(principal, host, operation, resource)
        if not is_allowed or authorizer.audits_allowed:
            authorizer.audit(self._request, principal, host, operation, resource)
        return is_allowed

    def would_allow(self, operation: Operation, resource: Resource) -> bool:
        """For filters, alternatives and lists of allowed operations."""
        return self._authorizer.allows(self._principal, self._host, operation, resource)

    def allows_any(self, operation: Operation, kind: ResourceKind) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, kind)
