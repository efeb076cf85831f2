"""`floodmark completion SHELL`: prints a shell completion script for commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from floodmark.cli.help import Command

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_FLOODMARK_COMPLETE"


@click.command(
    cls=Command,
    examples=[
        'eval "$(floodmark completion bash)"    # in ~/.bashrc',
        'eval "$(floodmark completion zsh)"     # in ~/.zshrc',
        "floodmark completion fish > ~/.config/fish/completions/floodmark.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for bash, zsh or fish: commands, options and profiles."""
    found = get_completion_class(shell)
    assert found is not None, f"click has no completion for {shell}"
    click.echo(found(ctx.find_root().command, {}, "floodmark", VARIABLE).source())
