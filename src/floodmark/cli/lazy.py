"""A command group that imports a command's module only when the command runs.

The short help texts stand next to the module names, so `floodmark --help` imports nothing else and
responds in well under 150 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from floodmark.cli.help import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """A command's location, as `module:attribute`, and its line in the command list."""

    target: str
    short_help: str


class LazyGroup(Group):
    def __init__(self, *args: Any, commands_at: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._commands_at.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, lazy.short_help) for name, lazy in self._commands_at.items()]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """click's own version would import every command to get its help line."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=lazy.short_help)
            for name, lazy in self._commands_at.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)
