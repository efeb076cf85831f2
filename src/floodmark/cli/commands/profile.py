"""`floodmark profile ...`: store client settings under a name and switch between clusters."""

from __future__ import annotations

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import DEFAULT_BOOTSTRAP_SERVER, output_option, pairs
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.profiles import (
    current_profile,
    profile_names,
    profile_path,
    read_profile,
    use_profile,
    write_profile,
)
from floodmark.cli.target import BOOTSTRAP, check_shared

_SECRET_WORDS = ("password", "secret", "jaas", "key.pem", "keystore.key")


@click.group(
    cls=Group,
    examples=[
        "floodmark profile create staging -b kafka.staging:9092",
        "floodmark profile use staging",
        "floodmark topic list --profile staging",
    ],
)
def profile() -> None:
    """Store client settings under a name.

    A profile is a properties file in ~/.config/floodmark/profiles (or under XDG_CONFIG_HOME).
    Options override environment variables, which override the profile.
    """


def _complete(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    return [name for name in profile_names() if name.startswith(begun)]


@profile.command("list", examples=["floodmark profile list", "floodmark profile list -o json"])
@output_option
def list_profiles(output: str) -> None:
    """List profiles and mark the active one."""
    current = current_profile()
    documents = [
        {
            "profile": name,
            "in_use": name == current,
            "bootstrap_servers": read_profile(name).get(BOOTSTRAP),
        }
        for name in profile_names()
    ]
    if output == JSON:
        print_json(documents)
    elif documents:
        rows = [
            (d["profile"], "yes" if d["in_use"] else "no", d["bootstrap_servers"])
            for d in documents
        ]
        print_table(("PROFILE", "IN-USE", "BOOTSTRAP-SERVERS"), rows)
    else:
        click.echo(
            "no profiles yet: create one with `floodmark profile create NAME -b HOST:PORT`",
            err=True,
        )


@profile.command(examples=["floodmark profile show", "floodmark profile show staging -o json"])
@click.argument("name", required=False, shell_complete=_complete)
@output_option
def show(name: str | None, output: str) -> None:
    """Show the settings of a profile. Default: the active profile."""
    chosen = name or current_profile()
    if chosen is None:
        raise CliError(
            "no profile is in use",
            hint="name one, or choose one with `floodmark profile use NAME`",
        )
    settings = {key: _shown(key, value) for key, value in sorted(read_profile(chosen).items())}
    if output == JSON:
        print_json({"profile": chosen, "file": str(profile_path(chosen)), "settings": settings})
        return
    click.echo(f"{chosen}  {profile_path(chosen)}")
    print_table(("NAME", "VALUE"), list(settings.items()))


def _shown(name: str, value: str) -> str:
    return "(hidden)" if any(word in name for word in _SECRET_WORDS) else value


@profile.command(
    examples=[
        "floodmark profile create local",
        "floodmark profile create staging -b kafka.staging:9092 -X client.id=ann --use",
    ]
)
@click.argument("name")
@click.option(
    "--bootstrap-server",
    "-b",
    default=DEFAULT_BOOTSTRAP_SERVER,
    show_default=True,
    help="Bootstrap servers, as host:port,host:port.",
)
@click.option(
    "-X", "properties", multiple=True, metavar="NAME=VALUE", help="Client setting to store."
)
@click.option("--use", is_flag=True, help="Make it the active profile.")
@click.option("--force", is_flag=True, help="Replace an existing profile.")
def create(
    name: str, bootstrap_server: str, properties: tuple[str, ...], use: bool, force: bool
) -> None:
    """Create a profile."""
    path = profile_path(name)
    if path.exists() and not force:
        raise CliError(
            f"profile {name} already exists",
            why=f"it is in {path}",
            hint="edit that file, choose another name, or add --force to replace it",
        )
    settings = {BOOTSTRAP: bootstrap_server, **pairs(properties)}
    check_shared(settings)
    write_profile(name, settings)
    click.echo(f"profile {name} written to {path}")
    if use:
        _use(name)


@profile.command(examples=["floodmark profile use staging", "floodmark profile use --none"])
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--none", is_flag=True, help="Deactivate the profile.")
def use(name: str | None, none: bool) -> None:
    """Choose the default profile for commands."""
    if none == (name is not None):
        raise click.UsageError("name a profile, or use --none")
    if name is None:
        use_profile(None)
        click.echo("no profile is in use")
        return
    check_shared(read_profile(name))
    _use(name)


def _use(name: str) -> None:
    use_profile(name)
    click.echo(f"profile {name} is in use")


@profile.command(examples=["floodmark profile delete staging"])
@click.argument("name", shell_complete=_complete)
def delete(name: str) -> None:
    """Delete a profile."""
    read_profile(name)
    profile_path(name).unlink()
    if current_profile() == name:
        use_profile(None)
    click.echo(f"profile {name} deleted")
