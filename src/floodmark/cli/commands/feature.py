"""`floodmark feature ...`: show and change the cluster's feature levels.

The counterpart of kafka-features.sh.
"""

from __future__ import annotations

import click

from floodmark.cli.help import Group
from floodmark.cli.options import output_option, pairs
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.features import Features
from floodmark.wire.numbers import UpgradeType


@click.group(cls=Group, examples=["floodmark feature describe"])
def feature() -> None:
    """Show and change the cluster's feature levels."""


@feature.command(examples=["floodmark feature describe -o json"])
@output_option
@admin_option
def describe(output: str, admin: Admin) -> None:
    """Show supported and finalized levels; 0 means off."""

    async def work() -> Features:
        async with admin:
            return await admin.describe_features()

    found = run_client(work())
    documents = [
        {
            "feature": name,
            "lowest": lowest,
            "highest": highest,
            "finalized": found.finalized.get(name, 0),
        }
        for name, (lowest, highest) in sorted(found.supported.items())
    ]
    if output == JSON:
        print_json({"epoch": found.epoch, "features": documents})
        return
    columns = ("FEATURE", "LOWEST", "HIGHEST", "FINALIZED")
    print_table(columns, [list(document.values()) for document in documents])


levels_argument = click.argument("levels", metavar="NAME=LEVEL...", nargs=-1, required=True)
dry_run_option = click.option("--dry-run", is_flag=True, help="Validate without applying.")


@feature.command(examples=["floodmark feature upgrade transaction.version=2 --dry-run"])
@levels_argument
@dry_run_option
@admin_option
def upgrade(levels: tuple[str, ...], dry_run: bool, admin: Admin) -> None:
    """Raise features to these levels, all or nothing."""
    _move(admin, levels, UpgradeType.UPGRADE, dry_run=dry_run)


@feature.command(examples=["floodmark feature downgrade transaction.version=1"])
@levels_argument
@click.option("--unsafe", is_flag=True, help="Allow it even if metadata may be lost.")
@dry_run_option
@admin_option
def downgrade(levels: tuple[str, ...], unsafe: bool, dry_run: bool, admin: Admin) -> None:
    """Lower features to these levels, all or nothing; 0 turns a feature off."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _move(admin, levels, kind, dry_run=dry_run)


def _move(admin: Admin, texts: tuple[str, ...], kind: UpgradeType, *, dry_run: bool) -> None:
    levels = _levels(texts)

    async def work() -> None:
        async with admin:
            await admin.update_features(levels, upgrade_type=kind, validate_only=dry_run)

    run_client(work())
    for name, level in levels.items():
        click.echo(f"feature {name} {'can be changed' if dry_run else 'changed'} to level {level}")


def _levels(texts: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, text in pairs(texts).items():
        if not text.isdecimal():
            raise click.UsageError(f"the level of {name} must be an integer, not '{text}'")
        levels[name] = int(text)
    return levels
