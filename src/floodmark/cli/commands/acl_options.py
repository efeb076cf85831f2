"""The options of `floodmark acl` (the same as kafka-acls) and the ACLs they describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from floodmark.cli.options import F
from floodmark.security.acls import AccessRule, Acl
from floodmark.security.resources import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
    pascal_case,
)

_OPERATIONS = {
    pascal_case(operation).lower(): operation
    for operation in Operation
    if operation not in (Operation.UNKNOWN, Operation.ANY)
}
_PATTERN_TYPES = {
    pattern_type.name.lower(): pattern_type
    for pattern_type in PatternType
    if pattern_type is not PatternType.UNKNOWN
}
_SPECIFIC = (PatternType.LITERAL, PatternType.PREFIXED)


class Resources(NamedTuple):
    named: list[tuple[ResourceKind, str]]
    pattern_type: PatternType | None


def resource_options(function: F) -> F:
    for option in (
        click.option("--topic", "topics", multiple=True, help="Topic name; * for all."),
        click.option("--group", "groups", multiple=True, help="Group name; * for all."),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--transactional-id", "transactional_ids", multiple=True, help="Transactional id."
        ),
        click.option("--delegation-token", "tokens", multiple=True, help="Delegation token."),
        click.option("--user-principal", "users", multiple=True, help="User, as User:name."),
        click.option(
            "--resource-pattern-type",
            "pattern_type",
            type=click.Choice(list(_PATTERN_TYPES), case_sensitive=False),
            help="How to match names; `match` finds every ACL that applies.",
        ),
    ):
        function = option(function)
    return function


def principal_options(function: F) -> F:
    for option in (
        click.option(
            "--allow-principal", "allowed", multiple=True, help="Principal, such as User:alice."
        ),
        click.option(
            "--deny-principal", "denied", multiple=True, help="Principal, such as User:eve."
        ),
        click.option("--allow-host", "allowed_hosts", multiple=True, help="Host; default: all."),
        click.option("--deny-host", "denied_hosts", multiple=True, help="Host; default: all."),
    ):
        function = option(function)
    return function


def operation_options(function: F) -> F:
    for option in (
        click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(list(_OPERATIONS), case_sensitive=False),
            help="Operation; default: all operations.",
        ),
        click.option("--producer", is_flag=True, help="Everything a producer needs."),
        click.option("--consumer", is_flag=True, help="Everything a consumer needs."),
        click.option("--idempotent", is_flag=True, help="With --producer, for Kafka before 3.0."),
    ):
        function = option(function)
    return function


def wanted_resources(options: Mapping[str, Any]) -> Resources:
    named = [
        *((ResourceKind.TOPIC, name) for name in options["topics"]),
        *((ResourceKind.GROUP, name) for name in options["groups"]),
        *((ResourceKind.TRANSACTIONAL_ID, name) for name in options["transactional_ids"]),
        *((ResourceKind.DELEGATION_TOKEN, name) for name in options["tokens"]),
        *((ResourceKind.USER, name) for name in options["users"]),
    ]
    if options["cluster"]:
        named.append((ResourceKind.CLUSTER, CLUSTER_NAME))
    chosen = options["pattern_type"]
    return Resources(named, _PATTERN_TYPES[chosen.lower()] if chosen else None)


def rules(options: Mapping[str, Any]) -> list[Acl]:
    """The ACLs that the options spell out. Empty if no principal is given."""
    principals = [
        *((name, PermissionType.ALLOW) for name in options["allowed"]),
        *((name, PermissionType.DENY) for name in options["denied"]),
    ]
    if not principals:
        if options["operations"] or options["producer"] or options["consumer"]:
            raise click.UsageError("operations need --allow-principal or --deny-principal")
        return []
    hosts = {
        PermissionType.ALLOW: options["allowed_hosts"] or ("*",),
        PermissionType.DENY: options["denied_hosts"] or ("*",),
    }
    resources = wanted_resources(options)
    pattern_type = resources.pattern_type or PatternType.LITERAL
    if pattern_type not in _SPECIFIC:
        raise click.UsageError("--resource-pattern-type must be literal or prefixed here")
    return [
        Acl(
            ResourcePattern(
                kind, name, PatternType.LITERAL if kind is ResourceKind.CLUSTER else pattern_type
            ),
            AccessRule(principal, host, operation, permission),
        )
        for kind, name, operation in dict.fromkeys(_operations(options, resources))
        for principal, permission in principals
        for host in hosts[permission]
    ]


def _operations(
    options: Mapping[str, Any], resources: Resources
) -> Iterator[tuple[ResourceKind, str, Operation]]:
    """Each resource with its operations. --producer and --consumer expand to Kafka's bundles."""
    topics, groups = options["topics"], options["groups"]
    if options["producer"]:
        if not topics:
            raise click.UsageError("--producer needs a --topic")
        for name in topics:
            for operation in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE):
                yield ResourceKind.TOPIC, name, operation
        for name in options["transactional_ids"]:
            for operation in (Operation.WRITE, Operation.DESCRIBE):
                yield ResourceKind.TRANSACTIONAL_ID, name, operation
        if options["idempotent"]:
            yield ResourceKind.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE
    if options["consumer"]:
        if not topics or not groups:
            raise click.UsageError("--consumer needs a --topic and a --group")
        for name in topics:
            for operation in (Operation.READ, Operation.DESCRIBE):
                yield ResourceKind.TOPIC, name, operation
        for name in groups:
            yield ResourceKind.GROUP, name, Operation.READ
    if options["producer"] or options["consumer"]:
        return
    if not resources.named:
        raise click.UsageError("name a resource: --topic NAME, --group NAME, --cluster ...")
    chosen = [_OPERATIONS[name.lower()] for name in options["operations"]] or [Operation.ALL]
    for kind, name in resources.named:
        for operation in chosen:
            yield kind, name, operation
