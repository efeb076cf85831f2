"""Options that many commands share, with Kafka's long names."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from floodmark.cli.output import JSON, TABLE
from floodmark.cli.target import find_target
from floodmark.client.settings import ClientSettings

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """click accepts `nan` in any range, and `inf` in one without an upper bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"


def _bootstrap_option(function: F) -> F:
    return click.option(
        "--bootstrap-server",
        "--broker-list",
        "-b",
        "bootstrap_server",
        envvar="FLOODMARK_BOOTSTRAP_SERVER",
        default=DEFAULT_BOOTSTRAP_SERVER,
        show_default=True,
        show_envvar=True,
        help="Bootstrap servers, as host:port,host:port.",
    )(function)


def _profile_option(function: F) -> F:
    return click.option(
        "--profile",
        metavar="NAME",
        envvar="FLOODMARK_PROFILE",
        show_envvar=True,
        shell_complete=_complete_profiles,
        help="Named client settings; see `floodmark profile --help`.",
    )(function)


def _complete_profiles(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from floodmark.cli.profiles import profile_names

    return [name for name in profile_names() if name.startswith(begun)]


def bootstrap_option(function: F) -> F:
    """Only the cluster's address: the command gets `bootstrap_server`."""

    @_bootstrap_option
    @_profile_option
    @wraps(function)
    def command(*, bootstrap_server: str, profile: str | None, **rest: Any) -> Any:
        target = find_target(bootstrap_server, profile, None)
        address, _ = target.resolve(ClientSettings)
        return function(bootstrap_server=address, **rest)

    return cast(F, command)


def client_options(function: F) -> F:
    """Connection options: the command gets a `target`."""
    return _client_options("--command-config")(function)


def kcat_client_options(function: F) -> F:
    """The same, with kcat's short option for the file."""
    return _client_options("--command-config", "-F")(function)


def _client_options(*config_names: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @_bootstrap_option
        @_profile_option
        @click.option(
            *config_names,
            "command_config",
            type=click.Path(exists=True, dir_okay=False),
            help="Properties file with client settings.",
        )
        @wraps(function)
        def command(
            *,
            bootstrap_server: str,
            profile: str | None,
            command_config: str | None,
            **rest: Any,
        ) -> Any:
            target = find_target(bootstrap_server, profile, command_config)
            return function(target=target, **rest)

        return cast(F, command)

    return decorate


def output_option(function: F) -> F:
    short = click.option("--json", "output", flag_value=JSON, help="Short for -o json.")
    return click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice([TABLE, JSON]),
        default=TABLE,
        help="A table, or one JSON document.",
    )(short(function))


def pairs(values: tuple[str, ...]) -> dict[str, str]:
    """Parses the `key=value` texts of a repeated option."""
    parsed: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"'{value}' is not of the form name=value")
        parsed[name.strip()] = text.strip()
    return parsed


def names_option(noun: str, option: str, *, separator: str | None = None) -> Callable[[F], F]:
    """Takes names as arguments or, like Kafka's tools, from an option: the command gets `names`.

    With a separator, one option can hold several names.
    """

    def decorate(function: F) -> F:
        @click.argument("arguments", metavar=f"{noun}...", nargs=-1)
        @click.option(
            option, "named", multiple=True, metavar=noun, help="Name, as in Kafka's tools."
        )
        @wraps(function)
        def command(*, arguments: tuple[str, ...], named: tuple[str, ...], **rest: Any) -> Any:
            listed = [name for text in named for name in _parts(text, separator) if name]
            return function(names=list(dict.fromkeys([*arguments, *listed])), **rest)

        return cast(F, command)

    return decorate


def _parts(text: str, separator: str | None) -> list[str]:
    return [text] if separator is None else text.split(separator)


def require(names: list[str], noun: str) -> None:
    if not names:
        raise click.UsageError(f"name a {noun}")


def parse_topics(values: tuple[str, ...]) -> dict[str, list[int] | None]:
    """Parses `topic` (all partitions) and `topic:0,2` (some)."""
    topics: dict[str, list[int] | None] = {}
    for value in values:
        name, colon, indexes = value.partition(":")
        try:
            topics[name] = [int(index) for index in indexes.split(",")] if colon else None
        except ValueError:
            raise click.UsageError(f"'{value}' is not of the form topic or topic:0,1") from None
    return topics
