"""`floodmark acl ...`: list, add and remove ACLs, with the options of Kafka's kafka-acls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from floodmark.cli.commands.acl_options import (
    Resources,
    operation_options,
    principal_options,
    resource_options,
    rules,
    wanted_resources,
)
from floodmark.cli.errors import CliError, fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, failure, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.errors import KafkaError
from floodmark.security.acls import Acl, AclFilter
from floodmark.security.resources import PatternType, pascal_case


@click.group(
    cls=Group,
    examples=[
        "floodmark acl add --allow-principal User:alice --producer --topic orders",
        "floodmark acl add --allow-principal User:bob --consumer --topic orders --group billing",
        "floodmark acl list --topic orders",
        "floodmark acl remove --topic orders --yes",
    ],
)
def acl() -> None:
    """List, add and remove ACLs.

    Brokers enforce ACLs only when authorizer.class.name is set. User:* matches every user, and a
    deny rule always overrides an allow rule.
    """


@acl.command(
    "list",
    examples=[
        "floodmark acl list",
        "floodmark acl list --topic orders --resource-pattern-type match",
        "floodmark acl list --principal User:alice -o json",
    ],
)
@resource_options
@click.option("--principal", "principals", multiple=True, help="Show only this principal's ACLs.")
@output_option
@admin_option
def list_acls(principals: tuple[str, ...], output: str, admin: Admin, **resources: Any) -> None:
    """List ACLs, optionally filtered by resource and principal."""
    filters = [
        one._replace(principal=principal)
        for one in _filters(wanted_resources(resources)) or [AclFilter()]
        for principal in (principals or (None,))
    ]

    async def work() -> list[Acl]:
        async with admin:
            return [found for one in filters for found in await admin.describe_acls(one)]

    found = sorted(dict.fromkeys(run_client(work())))
    if output == JSON:
        print_json([_json(one) for one in found])
    else:
        _print(found)


@acl.command(
    examples=[
        "floodmark acl add --allow-principal User:alice --operation read --topic orders",
        "floodmark acl add --allow-principal User:alice --producer --topic ord "
        "--resource-pattern-type prefixed",
        "floodmark acl add --deny-principal User:eve --operation all --cluster",
    ]
)
@resource_options
@principal_options
@operation_options
@output_option
@admin_option
def add(output: str, admin: Admin, **options: Any) -> None:
    """Add ACLs. Existing ACLs stay in place."""
    wanted = rules(options)
    if not wanted:
        raise click.UsageError(
            "name a principal: --allow-principal User:NAME or --deny-principal User:NAME"
        )

    async def work() -> list[KafkaError | None]:
        async with admin:
            return await admin.create_acls(wanted)

    outcomes = list(zip(wanted, run_client(work()), strict=True))
    added = [one for one, error in outcomes if error is None]
    if output == JSON:
        print_json([_json(one) for one in added])
    elif added:
        click.echo("added:")
        _print(added)
    fail_with(
        [
            failure(error, f"the ACL for {one.rule.principal} on {one.pattern.name} was not added")
            for one, error in outcomes
            if error is not None
        ]
    )


@acl.command(
    examples=[
        "floodmark acl remove --topic orders --yes",
        "floodmark acl remove --allow-principal User:alice --operation read --topic orders --yes",
        "floodmark acl remove --allow-principal User:bob --consumer --topic orders "
        "--group billing --yes",
    ]
)
@resource_options
@principal_options
@operation_options
@click.option(
    "--yes", "--force", "-y", "is_sure", is_flag=True, help="Do not ask for confirmation."
)
@output_option
@admin_option
def remove(is_sure: bool, output: str, admin: Admin, **options: Any) -> None:
    """Remove ACLs from a resource: the matching ones, or all if no principal is given."""
    chosen = rules(options)
    filters = [_exactly(one) for one in chosen] or _filters(wanted_resources(options))
    if not filters:
        raise click.UsageError("name a resource: --topic NAME, --group NAME, --cluster ...")
    if not is_sure:
        _ask()

    async def work() -> list[list[Acl]]:
        async with admin:
            return await admin.delete_acls(filters)

    gone = sorted({one for found in run_client(work()) for one in found})
    if output == JSON:
        print_json([_json(one) for one in gone])
    elif gone:
        click.echo("removed:")
        _print(gone)
    else:
        click.echo("no ACL matched")


def _ask() -> None:
    """The answer may come from a pipe, as with Kafka's tool."""
    try:
        is_sure = click.confirm("Remove the ACLs that match?", err=True)
    except click.Abort as error:
        if sys.stdin.isatty():
            raise
        raise CliError(
            "nothing was removed", why="stdin has no confirmation", hint="add --yes"
        ) from error
    if not is_sure:
        raise CliError("nothing was removed")


def _exactly(one: Acl) -> AclFilter:
    (kind, name, pattern_type), rule = one
    return AclFilter(kind, name, pattern_type, *rule)


def _filters(resources: Resources) -> list[AclFilter]:
    pattern_type = resources.pattern_type or PatternType.LITERAL
    return [AclFilter(kind, name, pattern_type) for kind, name in resources.named]


def _print(found: Sequence[Acl]) -> None:
    rows = [
        (
            pascal_case(pattern.kind),
            pattern.name,
            pascal_case(pattern.pattern_type),
            rule.principal,
            rule.host,
            pascal_case(rule.operation),
            pascal_case(rule.permission),
        )
        for pattern, rule in found
    ]
    columns = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
    print_table(columns, rows)


def _json(one: Acl) -> dict[str, str]:
    pattern, rule = one
    return {
        "resource_type": pattern.kind.name,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }
