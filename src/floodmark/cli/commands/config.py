"""`floodmark config ...`: describe and alter topic, broker and group settings."""

from __future__ import annotations

from typing import Any

import click

from floodmark.cli.commands.config_names import SETTINGS_OF, list_names
from floodmark.cli.errors import fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, failure, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceConfig,
    ResourceOutcome,
)
from floodmark.config.broker_config import base_name
from floodmark.config.suggestions import did_you_mean
from floodmark.wire.numbers import ConfigOperation, ConfigSource, ResourceType

_UNCHANGED = frozenset({ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG})
_ENTITY_TYPES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "groups": ResourceType.GROUP,
}


@click.group(
    cls=Group,
    examples=[
        "floodmark config list topics",
        "floodmark config describe --topic orders",
        "floodmark config alter --topic orders retention.ms=3600000",
    ],
)
def config() -> None:
    """Describe and alter topic, broker and group settings."""


config.add_command(list_names)


def entity_options(function: Any) -> Any:
    """Kafka's --entity-type and --entity-name, and the shorter --topic, --broker, --group."""
    for option in (
        click.option("--broker-defaults", is_flag=True, help="Settings for all brokers."),
        click.option("--broker", "brokers", type=int, multiple=True, help="Broker id."),
        click.option("--group", "groups", multiple=True, help="Group name."),
        click.option("--topic", "topics", multiple=True, help="Topic name."),
        click.option("--entity-default", is_flag=True, help="Default for --entity-type brokers."),
        click.option(
            "--entity-name", "entity_names", multiple=True, help="Topic, broker id or group."
        ),
        click.option("--entity-type", type=click.Choice(list(_ENTITY_TYPES)), help="Entity type."),
    ):
        function = option(function)
    return function


def _resources(
    entity_type: str | None,
    entity_names: tuple[str, ...],
    entity_default: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    brokers: tuple[int, ...],
    broker_defaults: bool,
) -> list[ConfigResource]:
    found = [ConfigResource.topic(name) for name in topics]
    found += [ConfigResource.group(name) for name in groups]
    found += [ConfigResource.broker(node_id) for node_id in brokers]
    if broker_defaults or (entity_default and entity_type == "brokers"):
        found.append(ConfigResource.broker(None))
    if entity_names and entity_type is None:
        raise click.UsageError(f"--entity-name needs --entity-type {' or '.join(_ENTITY_TYPES)}")
    if entity_type is not None:
        if entity_type == "brokers" and not all(name.isdigit() for name in entity_names):
            raise click.UsageError("a broker's --entity-name must be its numeric id")
        found += [ConfigResource(_ENTITY_TYPES[entity_type], name) for name in entity_names]
    if not found:
        raise click.UsageError(
            "name an entity: --topic NAME, --group NAME, --broker ID or --broker-defaults"
        )
    return found


@config.command(
    examples=[
        "floodmark config describe --topic orders",
        "floodmark config describe --broker 1 --all -o json",
        "floodmark config describe --entity-type groups --entity-name billing",
    ]
)
@entity_options
@click.option("--all", "show_all", is_flag=True, help="Include defaults.")
@output_option
@admin_option
def describe(
    show_all: bool,
    output: str,
    admin: Admin,
    **entity: Any,
) -> None:
    """Show settings and where each value comes from."""
    resources = _resources(**entity)

    async def work() -> list[ResourceConfig]:
        async with admin:
            return await admin.describe_configs(
                resources, include_synonyms=True, include_documentation=output == JSON
            )

    described = run_client(work())
    readable = [item for item in described if item.error is None]
    if output == JSON:
        print_json([_resource_json(item, show_all=show_all) for item in readable])
    else:
        for item in readable:
            _print_resource(item, show_all=show_all)
    fail_with(
        [
            failure(item.error, f"the settings of {_title(item.resource)} could not be read")
            for item in described
            if item.error is not None
        ]
    )


@config.command(
    examples=[
        "floodmark config alter --topic orders retention.ms=3600000 segment.ms=600000",
        "floodmark config alter --broker-defaults log.cleaner.threads=2",
        "floodmark config alter --topic orders --delete-config retention.ms",
    ]
)
@entity_options
@click.argument("assignments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--add-config",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Settings to set; [a,b] for a list.",
)
@click.option("--delete-config", multiple=True, metavar="NAME,...", help="Settings to reset.")
@click.option("--validate-only", is_flag=True, help="Validate without applying.")
@output_option
@admin_option
def alter(
    assignments: tuple[str, ...],
    add_config: tuple[str, ...],
    delete_config: tuple[str, ...],
    validate_only: bool,
    output: str,
    admin: Admin,
    **entity: Any,
) -> None:
    """Change settings. Changes take effect immediately."""
    resources = _resources(**entity)
    changes = [ConfigChange(name, value) for name, value in _split_pair_list(assignments)]
    for text in add_config:
        changes += [ConfigChange(*pair) for pair in _split_pair_list(_split_outside_brackets(text))]
    for text in delete_config:
        changes += [
            ConfigChange(name.strip(), None, ConfigOperation.DELETE) for name in text.split(",")
        ]
    if not changes:
        raise click.UsageError("name a change: NAME=VALUE, --add-config or --delete-config")

    if any(resource.type is ResourceType.BROKER for resource in resources):
        _warn_of_unknown(changes)

    async def work() -> list[ResourceOutcome]:
        async with admin:
            return await admin.incremental_alter_configs(
                dict.fromkeys(resources, changes), validate_only=validate_only
            )

    outcomes = run_client(work())
    if output == JSON:
        print_json([_outcome_json(outcome) for outcome in outcomes])
    else:
        verb = "can be altered" if validate_only else "altered"
        for outcome in outcomes:
            if outcome.error is None:
                click.echo(f"settings of {_title(outcome.resource)} {verb}")
    fail_with(
        [
            failure(item.error, f"the settings of {_title(item.resource)} were not changed")
            for item in outcomes
            if item.error is not None
        ]
    )


def _warn_of_unknown(changes: list[ConfigChange]) -> None:
    """Brokers also store unknown names, because Kafka does so for its plugins."""
    known = SETTINGS_OF["brokers"]
    for change in changes:
        if base_name(change.name) not in known:
            meant = did_you_mean(change.name, known)
            click.echo(f"warning: {change.name} is not a broker setting{meant}", err=True)


def _split_pair_list(texts: tuple[str, ...] | list[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"'{text}' is not of the form name=value")
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        found.append((name.strip(), value))
    return found


def _split_outside_brackets(text: str) -> list[str]:
    """Splits `a=1,b=[x,y]` into two parts, as Kafka's --add-config does."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def _title(resource: ConfigResource) -> str:
    if resource.type is ResourceType.BROKER:
        return f"broker {resource.name}" if resource.name else "all brokers"
    return f"{resource.type.name.lower()} {resource.name}"


def _shown(item: ResourceConfig, *, show_all: bool) -> list[ConfigEntry]:
    entries = sorted(item.entries.values(), key=lambda entry: entry.name)
    return [entry for entry in entries if show_all or entry.source not in _UNCHANGED]


def _value(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive and entry.value is None else entry.value


def _print_resource(item: ResourceConfig, *, show_all: bool) -> None:
    shown = _shown(item, show_all=show_all)
    if not shown:
        click.echo(f"{_title(item.resource)}: no settings changed; --all shows the defaults")
        return
    click.echo(f"{_title(item.resource)}:")
    rows = [
        (entry.name, _value(entry), entry.source.name, "yes" if entry.is_read_only else "no")
        for entry in shown
    ]
    print_table(("NAME", "VALUE", "SOURCE", "READ-ONLY"), rows)


def _outcome_json(outcome: ResourceOutcome) -> Document:
    return {
        "type": outcome.resource.type.name.lower(),
        "name": outcome.resource.name,
        "error": outcome.error.code.name if outcome.error else None,
    }


def _resource_json(item: ResourceConfig, *, show_all: bool) -> Document:
    return {
        "type": item.resource.type.name.lower(),
        "name": item.resource.name,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
                "synonyms": [
                    {"name": s.name, "value": s.value, "source": s.source.name}
                    for s in entry.synonyms
                ],
                "documentation": entry.documentation,
            }
            for entry in _shown(item, show_all=show_all)
        ],
    }
