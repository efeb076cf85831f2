"""`floodmark user ...`: manages SCRAM users.

The counterpart of kafka-configs.sh --entity-type users, with the same options. Passwords can also
be typed or piped in, which keeps them out of the shell history.
"""

from __future__ import annotations

import re
import sys

import click

from floodmark.cli.help import Group
from floodmark.cli.options import names_option, output_option, require
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM, UserDescription
from floodmark.security.sasl import SCRAM_HASHES

_ADDED = re.compile(r"\s*(SCRAM-SHA-\d+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_mechanism = click.Choice(list(SCRAM_HASHES))


@click.group(
    cls=Group,
    examples=["floodmark user set alice", "floodmark user describe"],
)
def user() -> None:
    """Create, list and delete SCRAM users."""


@user.command(
    name="set",
    examples=[
        "floodmark user set alice",
        "echo the-password | floodmark user set alice --mechanism SCRAM-SHA-256",
        "floodmark user set alice --add-config 'SCRAM-SHA-256=[iterations=8192,password=secret]'",
    ],
)
@click.argument("name", required=False)
@click.option("--entity-name", metavar="NAME", help="User name, as in Kafka's tool.")
@click.option(
    "--mechanism",
    type=_mechanism,
    default=DEFAULT_MECHANISM,
    show_default=True,
    help="SCRAM mechanism.",
)
@click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help="Hash iterations.",
)
@click.option("--add-config", metavar="TEXT", help="Mechanism and password in Kafka's format.")
@admin_option
def set_(
    name: str | None,
    entity_name: str | None,
    mechanism: str,
    iterations: int,
    add_config: str | None,
    admin: Admin,
) -> None:
    """Create a user or change a password. Prompts for the password or reads it from a pipe."""
    named = name or entity_name
    if not named:
        raise click.UsageError("name a user")
    given = None
    if add_config is not None:
        mechanism, iterations, given = _parse_added(add_config)

    async def work() -> None:
        async with admin:
            password = given or _ask_password(named)
            await admin.set_scram_password(named, password, mechanism, iterations)

    run_client(work())
    click.echo(f"user {named} can authenticate with {mechanism}")


@user.command(examples=["floodmark user describe alice", "floodmark user describe -o json"])
@names_option("NAME", "--entity-name")
@output_option
@admin_option
def describe(names: list[str], output: str, admin: Admin) -> None:
    """Show users and their mechanisms. Default: all users."""

    async def work() -> list[UserDescription]:
        async with admin:
            return await admin.describe_scram_users(names or None)

    found = run_client(work())
    for one in found:
        if one.error is not None:
            raise click.ClickException(str(one.error))
    if output == JSON:
        print_json([{"user": one.name, "mechanisms": one.iterations} for one in found])
        return
    rows = [
        [one.name, mechanism, str(iterations)]
        for one in sorted(found, key=lambda one: one.name)
        for mechanism, iterations in one.iterations.items()
    ]
    print_table(("USER", "MECHANISM", "ITERATIONS"), rows)


@user.command(examples=["floodmark user delete alice", "floodmark user delete alice bob"])
@names_option("NAME", "--entity-name")
@click.option("--delete-config", "mechanism", type=_mechanism, help="Delete only this one.")
@admin_option
def delete(names: list[str], mechanism: str | None, admin: Admin) -> None:
    """Delete the credentials of users. Open connections stay open."""
    require(names, "user")

    async def work() -> None:
        async with admin:
            for found in await admin.describe_scram_users(names):
                if found.error is not None:
                    raise found.error
                mechanisms = [mechanism] if mechanism else list(found.iterations)
                await admin.delete_scram_credentials(found.name, mechanisms)

    run_client(work())
    for name in names:
        click.echo(f"credentials of user {name} deleted")


def _ask_password(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True))
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("stdin had no password")
    return password


def _parse_added(text: str) -> tuple[str, int, str]:
    match = _ADDED.fullmatch(text)
    if match is None or match[1] not in SCRAM_HASHES:
        raise click.UsageError(
            "--add-config is not of the form SCRAM-SHA-256=[iterations=8192,password=...]"
        )
    begin, found, password = match[2].partition("password=")
    if not found or not password:
        raise click.UsageError("--add-config has no password")
    iterations = re.search(r"iterations=(\d{1,9})", begin)
    return match[1], int(iterations[1]) if iterations else DEFAULT_ITERATIONS, password
