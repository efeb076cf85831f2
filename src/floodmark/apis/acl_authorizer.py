"""Authorizes by ACLs and writes an audit log, like Kafka's StandardAuthorizer.

Created by `broker.access_control`, which calls `use` on every ACL change. Caches decisions until
the next change, because clients repeat the same requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import IntEnum

from floodmark.network.principal import Principal
from floodmark.occurrences import Occurrences, repeated
from floodmark.security.acl_table import AclTable, Verdict
from floodmark.security.resources import Operation, Resource, ResourceKind, pascal_case

audit_log = logging.getLogger("kafka.authorizer.logger")
"""Kafka's name. Denied requests are logged at INFO, allowed ones at DEBUG."""

MOST_CACHED = 50_000
"""Clients choose hosts and names and could exhaust memory, so a full cache starts over."""

LONGEST_NAME = 249
"""The limit for topic names. Others may have 32 KB: the cache skips longer ones, the log cuts
them."""


class AclAuthorizer:
    allows_all = False

    def __init__(self, table: AclTable, changed: Callable[[], None]) -> None:
        """`changed` is called after every ACL change."""
        self.table = table
        self._changed = changed
        self._verdicts: dict[tuple[Principal, str, Operation, Resource], Verdict] = {}
        self._any: dict[tuple[Principal, str, Operation, ResourceKind], bool] = {}
        self._denials = Occurrences()

    def use(self, table: AclTable) -> None:
        """Decides by these ACLs from now on."""
        self.table = table
        self._verdicts.clear()
        self._any.clear()
        self._changed()

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        verdict = self._verdicts.get((principal, host, operation, resource))
        if verdict is None:
            verdict = self._decide(principal, host, operation, resource)
        return verdict.is_allowed

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> Verdict:
        verdict = self.table.decide(str(principal), host, operation, resource)
        if len(resource.name) <= LONGEST_NAME:
            if len(self._verdicts) >= MOST_CACHED:
                self._verdicts.clear()
            self._verdicts[principal, host, operation, resource] = verdict
        return verdict

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        key = (principal, host, operation, kind)
        allowed = self._any.get(key)
        if allowed is None:
            if len(self._any) >= MOST_CACHED:
                self._any.clear()
            allowed = self._any[key] = self.table.decide_any(str(principal), host, operation, kind)
        return allowed

    @property
    def audits_allowed(self) -> bool:
        return audit_log.isEnabledFor(logging.DEBUG)

    def audit(
        self,
        request: IntEnum,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: Resource,
    ) -> None:
        verdict = self._decide(principal, host, operation, resource)
        text = (
            f"Principal = {principal} is {'Allowed' if verdict.is_allowed else 'Denied'} "
            f"operation = {operation.name} from host = {host} on resource = "
            f"{pascal_case(resource.kind)}:LITERAL:{_shown(resource.name)} "
            f"for request = {pascal_case(request)} based on rule {verdict.rule}"
        )
        if verdict.is_allowed:
            audit_log.debug("%s", text)
            return
        self._tell(text)

    def audit_rest(self, request: IntEnum, principal: Principal, host: str) -> None:
        self._tell(
            f"Principal = {principal} is Denied more from host = {host} for one request = "
            f"{pascal_case(request)}; further denials of such a request are not listed"
        )

    def _tell(self, denial: str) -> None:
        times = self._denials.worth_telling(denial)
        if times:
            audit_log.info("%s%s", denial, repeated(times))


def _shown(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
