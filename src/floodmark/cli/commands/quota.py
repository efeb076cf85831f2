"""`floodmark quota ...`: describe and alter quotas of users, client ids and IP addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from floodmark.cli.help import Group
from floodmark.cli.options import F, output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin
from floodmark.config.suggestions import closest
from floodmark.security.quota_entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

_KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
)
_SHOWN_DEFAULT = "<default>"


@click.group(
    cls=Group,
    examples=[
        "floodmark quota alter --user alice producer_byte_rate=1048576",
        "floodmark quota alter --client-default consumer_byte_rate=2097152",
        "floodmark quota describe",
    ],
)
def quota() -> None:
    """Describe and alter client quotas for producing, fetching and requests.

    If several quotas match a client, the most specific one applies: user and client id, then user,
    then client id. A named entity takes precedence over the default.
    """


def entity_options(function: F) -> F:
    """Adds the options that name a quota entity."""
    for option in (
        click.option("--ip-default", is_flag=True, help="Default for IP addresses."),
        click.option("--ip", help="Client IP address."),
        click.option("--client-default", is_flag=True, help="Default for client ids."),
        click.option("--client", help="Client id."),
        click.option("--user-default", is_flag=True, help="Default for users."),
        click.option("--user", help="User."),
    ):
        function = option(function)
    return function


def _parts(options: Mapping[str, Any]) -> dict[str, str]:
    parts: dict[str, str] = {}
    for entity_type, name in ((USER, "user"), (CLIENT_ID, "client"), (IP, "ip")):
        chosen, is_default = options[name], options[f"{name}_default"]
        if chosen is not None and is_default:
            raise click.UsageError(f"--{name} and --{name}-default are mutually exclusive")
        if is_default:
            parts[entity_type] = DEFAULT
        elif chosen is not None:
            if not chosen:
                raise click.UsageError(f"--{name} needs a name; --{name}-default sets the default")
            parts[entity_type] = chosen
    return parts


@quota.command(
    examples=[
        "floodmark quota describe",
        "floodmark quota describe --user alice",
        "floodmark quota describe --client-default --strict -o json",
    ]
)
@entity_options
@click.option("--strict", is_flag=True, help="Match exactly these entities.")
@output_option
@admin_option
def describe(strict: bool, output: str, admin: Admin, **options: Any) -> None:
    """Show quotas, optionally for one entity."""
    wanted: dict[str, str | None] = {**_parts(options)}

    async def work() -> dict[QuotaEntity, dict[str, float]]:
        async with admin:
            return await admin.describe_client_quotas(wanted, strict=strict)

    found = run_client(work())
    if output == JSON:
        print_json([{**_names(entity), "quotas": values} for entity, values in found.items()])
        return
    rows = [
        (*(_shown(name) for name in entity), key, f"{value:g}" if value % 1 else str(int(value)))
        for entity, values in sorted(found.items(), key=lambda item: str(item[0]))
        for key, value in sorted(values.items())
    ]
    print_table(("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"), rows)


@quota.command(
    examples=[
        "floodmark quota alter --user alice producer_byte_rate=1048576",
        "floodmark quota alter --user alice --client app request_percentage=25",
        "floodmark quota alter --ip 10.0.0.1 connection_creation_rate=10",
        "floodmark quota alter --user alice --delete producer_byte_rate",
    ]
)
@entity_options
@click.argument("assignments", nargs=-1, metavar="[QUOTA=NUMBER]...")
@click.option("--delete", "deleted", multiple=True, metavar="QUOTA", help="Remove a quota.")
@click.option("--validate-only", is_flag=True, help="Validate without applying.")
@output_option
@admin_option
def alter(
    assignments: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
    output: str,
    admin: Admin,
    **options: Any,
) -> None:
    """Set and remove quotas. Changes take effect immediately."""
    parts = _parts(options)
    if not parts:
        raise click.UsageError(
            "name an entity: --user NAME, --client ID, --ip ADDRESS, or a default"
        )
    changes: dict[str, float | None] = {**_assigned(assignments), **dict.fromkeys(deleted)}
    for name in changes:
        # Other names may be quotas of a newer broker, which answers for itself.
        meant = None if name in _KEYS else closest(name, _KEYS)
        if meant is not None:
            raise click.UsageError(f"unknown quota {name}: did you mean {meant}?")
    if not changes:
        raise click.UsageError(
            f"name a change: QUOTA=NUMBER or --delete QUOTA, of {', '.join(_KEYS)}"
        )
    entity = QuotaEntity(parts.get(USER), parts.get(CLIENT_ID), parts.get(IP))

    async def work() -> None:
        async with admin:
            await admin.alter_client_quotas(entity, changes, validate_only=validate_only)

    run_client(work())
    if output == JSON:
        print_json({**_names(entity), "quotas": changes})
    else:
        verb = "can be altered" if validate_only else "altered"
        named = ", ".join(f"{kind} {_shown(name)}" for kind, name in parts.items())
        click.echo(f"quotas of {named} {verb}")


def _assigned(texts: tuple[str, ...]) -> dict[str, float]:
    values: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise click.UsageError(f"'{text}' is not of the form quota=number") from None
    return values


def _shown(name: str | None) -> str | None:
    return _SHOWN_DEFAULT if name == DEFAULT else name


def _names(entity: QuotaEntity) -> dict[str, str | None]:
    return {kind: _shown(name) for kind, name in entity.parts.items()}
