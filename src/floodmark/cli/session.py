"""From a command to a running client and back: settings, the event loop, errors, interruption.

Every command that talks to a broker goes through `run_client`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from floodmark.cli.errors import CliError, no_such_partition
from floodmark.cli.options import client_options
from floodmark.client.errors import ClientClosed, ConnectionFailed, KafkaError, UnsupportedApi
from floodmark.client.settings import ClientSettings, SettingsError
from floodmark.client.view import TopicPartition
from floodmark.config.errors import ConfigError
from floodmark.config.loaders import parse_properties
from floodmark.wire.errors import ErrorCode

if TYPE_CHECKING:
    from floodmark.client.admin import Admin

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=ClientSettings)

TERMINATED = 128 + signal.SIGTERM
"""The exit code that a shell gives to what SIGTERM ended."""

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
    ErrorCode.INVALID_UPDATE_VERSION: "floodmark feature describe shows names and levels",
    ErrorCode.BROKER_NOT_AVAILABLE: "floodmark cluster describe shows who is there",
    ErrorCode.OFFSET_OUT_OF_RANGE: "floodmark topic describe shows the first and last offsets",
    ErrorCode.LEADER_NOT_AVAILABLE: "the log of its broker says why the partition is offline",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's log says what is wrong with its disk",
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


def admin_option(function: F) -> F:
    """How to reach the cluster: the command gets an `admin`, to be entered."""

    @client_options
    @wraps(function)
    def command(*, bootstrap_server: str, command_config: str | None, **rest: Any) -> Any:
        return function(admin=admin_client(bootstrap_server, command_config), **rest)

    return cast(F, command)


def admin_client(bootstrap_server: str, settings_file: str | None) -> Admin:
    # Imported here because commands that only produce or consume do without it.
    from floodmark.client.admin import Admin

    settings = client_settings(ClientSettings, settings_file)
    try:
        return Admin(bootstrap_server, settings)
    except ValueError as error:
        raise CliError(str(error)) from error


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; failures become errors for people, Ctrl-C ends quietly in `main`."""
    try:
        return asyncio.run(_until_terminated(work))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None
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


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM ends it as Ctrl-C does: a consumer commits what it has read and leaves its group."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


async def check_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """One that does not exist is an error at once; asked for it, a client waits for it to come."""
    wanted = list(partitions)
    topics = {topic.name: topic for topic in await admin.describe_topics({p.topic for p in wanted})}
    for partition in wanted:
        known = topics[partition.topic].partitions
        if partition.partition not in known:
            raise no_such_partition(partition, len(known))


def failure(error: KafkaError, what: str | None = None) -> CliError:
    """A broker's refusal with what to do about it."""
    # Of a time that is over the last refusal says why.
    reason = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
    hint = _HINTS.get(reason.code)
    if isinstance(error, UnsupportedApi):
        hint = "use a newer broker for this command"
    if what is None:
        return CliError(str(error), hint=hint)
    return CliError(what, why=str(error), hint=hint)
