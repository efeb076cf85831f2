"""From a command to a running client and back: settings, the event loop, errors, interruption.

Every command that talks to a broker goes through `run_client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from floodmark.cli.errors import CliError
from floodmark.client.errors import ClientClosed, ConnectionFailed, KafkaError, UnsupportedApi
from floodmark.client.settings import ClientSettings, SettingsError
from floodmark.config.errors import ConfigError
from floodmark.config.loaders import parse_properties
from floodmark.wire.errors import ErrorCode

if TYPE_CHECKING:
    from floodmark.client.admin import Admin

T = TypeVar("T")
S = TypeVar("S", bound=ClientSettings)

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "floodmark topic list shows what there is",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or add --if-not-exists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use letters, digits, '.', '_' and '-', at most 249 of them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "use at most as many replicas as there are brokers",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is at least 1 and can only grow",
    ErrorCode.INVALID_CONFIG: "floodmark config describe --all shows names and values",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise max.message.bytes of the topic",
    ErrorCode.GROUP_ID_NOT_FOUND: "floodmark group list shows what there is",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first: floodmark group members shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read the topic first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "floodmark transaction list shows what there is",
    ErrorCode.OFFSET_OUT_OF_RANGE: "floodmark topic describe shows the first and last offsets",
}


def client_settings(
    settings_class: type[S],
    command_config: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> S:
    """Settings from a --command-config file and name=value pairs, of which the pairs win."""
    properties: dict[str, str] = {}
    try:
        if command_config is not None:
            properties |= parse_properties(Path(command_config).read_text(encoding="utf-8"))
        properties |= overrides or {}
        settings, unknown = settings_class.from_properties(properties)
    except (SettingsError, ConfigError, OSError, UnicodeDecodeError) as error:
        raise CliError("the client settings cannot be used", why=str(error)) from error
    for name in unknown:
        if name != "bootstrap.servers":
            click.echo(f"warning: client setting {name} has no effect here", err=True)
    return settings


def admin_client(bootstrap_server: str, command_config: str | None) -> Admin:
    """What the `client_options` of a command say, ready to be entered."""
    # Imported here because commands that only produce or consume do without it.
    from floodmark.client.admin import Admin

    return Admin(bootstrap_server, client_settings(ClientSettings, command_config))


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; failures become errors for people, Ctrl-C ends quietly in `main`."""
    try:
        return asyncio.run(work)
    except ConnectionFailed as error:
        raise CliError(
            "the broker cannot be reached",
            why=error.text,
            hint="start one with `floodmark up`, or name another with --bootstrap-server",
        ) from error
    except KafkaError as error:
        raise failure(error) from error
    except (ClientClosed, SettingsError, ValueError) as error:
        raise CliError(str(error)) from error


def failure(error: KafkaError, what: str | None = None) -> CliError:
    """A broker's refusal with what to do about it."""
    hint = _HINTS.get(error.code)
    if isinstance(error, UnsupportedApi):
        hint = "use a newer broker for this command"
    if what is None:
        return CliError(str(error), hint=hint)
    return CliError(what, why=str(error), hint=hint)
