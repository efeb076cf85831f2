"""Commands with examples in their help, and groups that suggest a command after a typo.

All `floodmark` commands and groups use these two classes. A test runs every example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

WHOLE_SENTENCE = 200
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", HELP_OPTIONS)
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)

    def get_short_help_str(self, limit: int = WHOLE_SENTENCE) -> str:
        """The line in the command list. It may wrap, but is never cut off."""
        return super().get_short_help_str(WHOLE_SENTENCE)


class Group(click.Group):
    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", HELP_OPTIONS)
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command '{name}'.{suggestion(name, names)}", ctx)
        return super().resolve_command(ctx, args)


# Common guesses, mapped to the actual command.
_MEANT = {
    "start": "up",
    "serve": "up",
    "server": "up",
    "broker": "up",
    "send": "produce",
    "read": "consume",
    "help": "--help",
    "version": "--version",
    "trim": "records",
    "ls": "list",
    "rm": "delete",
    "remove": "delete",
    "new": "create",
    "add": "create",
    "show": "describe",
    "set": "alter",
    "offsets": "group",
    "profiles": "profile",
}


def suggestion(name: str, known: Sequence[str]) -> str:
    """Starts with a space. Empty if no known name is similar."""
    # Imported late: only typos need it.
    from floodmark.config.suggestions import closest

    meant = _MEANT.get(name.lower())
    found = meant if meant in (*known, "--help", "--version") else closest(name, known)
    return "" if found is None else f" Did you mean '{found}'?"


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Printed without wrapping, so they can be pasted."""
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
