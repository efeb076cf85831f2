"""The authorizer port, and what the gate asks it.

`Authorizer` decides whether a principal on a host may perform an operation on a resource. A broker
without ACLs uses `AllowAll`, otherwise `apis.acl_authorizer`. `apis.access` declares what each API
asks; `apis.gate` asks it.
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

MOST_AUDITED = 100
"""Denials of one request that are logged one by one. A request may name 20,000 things, and every
line takes time that other clients wait for."""

DENIED = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceKind.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceKind.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code for a denied request, by kind of resource."""


class Authorizer(Protocol):
    """Decides without waiting and without side effects visible to clients.

    It must end `Services.generation` after every ACL change, because requests are authorized once
    and then prepared.
    """

    @property
    def allows_all(self) -> bool:
        """Whether there is nothing to check, so the gate is skipped."""

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool: ...

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        """Whether it allows this on at least one resource of this kind."""

    @property
    def audits_allowed(self) -> bool:
        """Whether `audit` also wants allowed requests."""

    def audit(
        self,
        request: IntEnum,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
    ) -> None:
        """Logs a decision about something a client explicitly requested."""

    def audit_rest(self, request: IntEnum, principal: Principal, host: str) -> None:
        """Logs that a request is denied more than was logged of it."""


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

    def audit_rest(self, request: IntEnum, principal: Principal, host: str) -> None: ...


class Guard:
    """The authorizer's decisions for one request of a principal and host."""

    __slots__ = ("_authorizer", "_denials", "_host", "_principal", "_request")

    def __init__(
        self, authorizer: Authorizer, principal: Principal, host: str, request: IntEnum
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._request = request
        self._denials = 0

    def allows(self, operation: Operation, resource: Resource) -> bool:
        """For explicit requests: logs the decision in the audit log."""
        authorizer, principal, host = self._authorizer, self._principal, self._host
        is_allowed = authorizer.allows(principal, host, operation, resource)
        self._denials += not is_allowed
        if self._denials > MOST_AUDITED:
            if self._denials == MOST_AUDITED + 1:
                authorizer.audit_rest(self._request, principal, host)
        elif not is_allowed or authorizer.audits_allowed:
            authorizer.audit(self._request, principal, host, operation, resource)
        return is_allowed

    def would_allow(self, operation: Operation, resource: Resource) -> bool:
        """For filters, alternatives and lists of allowed operations."""
        return self._authorizer.allows(self._principal, self._host, operation, resource)

    def allows_any(self, operation: Operation, kind: ResourceKind) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, kind)
