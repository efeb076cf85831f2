"""Authorizers and quotas for tests, and how to put them into a running broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from floodmark.apis.authorizer import Authorizer, Operation, Resource, ResourceKind
from floodmark.apis.quotas import Measured, Quotas, Usage
from floodmark.network.principal import Principal
from floodmark.testing.broker_thread import BrokerThread

Permission = tuple[Operation, ResourceKind, str]


class Permits:
    """Allows what it lists, and notes what it was asked."""

    allows_all = False
    audits_allowed = False

    def __init__(self, *permissions: Permission) -> None:
        self.permissions = set(permissions)
        self.changed: Callable[[], None] = lambda: None
        self.asked: list[Permission] = []
        self.audited: list[tuple[IntEnum, Operation, Resource]] = []
        self.principals: set[tuple[Principal, str]] = set()

    def change(self, *permissions: Permission) -> None:
        self.permissions = set(permissions)
        self.changed()

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        self.principals.add((principal, host))
        self.asked.append((operation, resource.kind, resource.name))
        return (operation, resource.kind, resource.name) in self.permissions

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        self.asked.append((operation, kind, "*"))
        return any((op, of) == (operation, kind) for op, of, _ in self.permissions)

    def audit(
        self,
        request: IntEnum,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
    ) -> None:
        self.audited.append((request, operation, resource))

    def audit_rest(self, request: IntEnum, principal: Principal, host: str) -> None: ...


class Throttles:
    """Mutes the next connections for these times."""

    is_unlimited = False
    measures_time = False

    def __init__(self, *times_ms: int) -> None:
        self.times_ms = list(times_ms)
        self.changed: Callable[[], None] = lambda: None
        self.usages: list[Usage] = []
        self.forgiven: list[Usage] = []

    def measured(self) -> Sequence[Measured]:
        return ()

    def throttle_ms(self, usage: Usage) -> int:
        self.usages.append(usage)
        return self.times_ms.pop(0) if self.times_ms else 0

    def forgive_answer(self, usage: Usage) -> None:
        self.forgiven.append(usage)

    def most_fetched(self, principal: Principal | None, client_id: str | None) -> float:
        return float("inf")

    def mutation_throttle_ms(
        self,
        principal: Principal | None,
        client_id: str | None,
        partitions: int,
        *,
        is_strict: bool,
    ) -> int:
        return 0


def plug_in(
    broker: BrokerThread, authorizer: Authorizer | None = None, quotas: Quotas | None = None
) -> None:
    async def plug() -> None:
        services = broker.broker.services
        services.authorizer = authorizer or services.authorizer
        services.quotas = quotas or services.quotas
        for plugged in (authorizer, quotas):
            if isinstance(plugged, Permits | Throttles):
                plugged.changed = services.generation.end
        services.generation.end()

    broker.call(plug())
