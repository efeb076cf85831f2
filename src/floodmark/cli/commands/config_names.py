"""`floodmark config list`: the settings this version knows. Contacts no broker."""

from __future__ import annotations

from collections.abc import Mapping

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.config.group_config import GROUP_SETTINGS_BY_NAME
from floodmark.config.setting import Setting
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME
from floodmark.config.suggestions import did_you_mean
from floodmark.config.values import format_value

SETTINGS_OF: Mapping[str, Mapping[str, Setting]] = {
    "topics": TOPIC_SETTINGS_BY_NAME,
    "brokers": BROKER_SETTINGS_BY_NAME,
    "groups": GROUP_SETTINGS_BY_NAME,
}


@click.command(
    "list",
    cls=Command,
    examples=[
        "floodmark config list topics",
        "floodmark config list brokers retention",
        "floodmark config list groups -o json",
    ],
)
@click.argument("kind", type=click.Choice(list(SETTINGS_OF)))
@click.argument("text", required=False)
@output_option
def list_names(kind: str, text: str | None, output: str) -> None:
    """List known settings, optionally only those with TEXT in their name. Contacts no broker."""
    known = SETTINGS_OF[kind]
    found = [
        setting
        for name, setting in sorted(known.items())
        if not setting.is_internal and (text is None or text in name)
    ]
    if not found:
        raise CliError(
            f"no {kind} setting has '{text}' in its name{did_you_mean(text or '', known)}",
            hint=f"`floodmark config list {kind}` lists them all",
        )
    documents = [
        {
            "name": setting.name,
            "type": setting.type.name.lower(),
            "default": None if setting.default is None else format_value(setting.default),
            "documentation": setting.documentation,
        }
        for setting in found
    ]
    if output == JSON:
        print_json(documents)
        return
    print_table(
        ("NAME", "TYPE", "DEFAULT", "WHAT"),
        [[value or None for value in document.values()] for document in documents],
    )
