"""From a command to a running client and back: settings, the event loop, errors, interruption.

Every command that talks to a broker goes through `run_client`.
"""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from floodmark.cli.errors import CliError, no_such_partition
from floodmark.cli.options import client_options
from floodmark.cli.target import Target
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.errors import ClientClosed, ConnectionFailed, KafkaError, UnsupportedApi
from floodmark.client.settings import ClientSettings, SettingsError
from floodmark.config.suggestions import closest
from floodmark.wire.errors import ErrorCode

if TYPE_CHECKING:
    from floodmark.client.admin.admin import Admin

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

TERMINATED = 128 + signal.SIGTERM
"""The exit code that a shell gives to what SIGTERM ended."""

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`floodmark topic list` shows what there is",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or add --if-not-exists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use letters, digits, '.', '_' and '-', at most 249 of them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "use at most as many replicas as there are brokers",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is at least 1 and can only grow",
    ErrorCode.INVALID_CONFIG: "`floodmark config list topics` shows names and types",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise max.message.bytes of the topic",
    ErrorCode.GROUP_ID_NOT_FOUND: "`floodmark group list` shows what there is",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first: `floodmark group members GROUP` shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read the topic first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`floodmark transaction list` shows what there is",
    ErrorCode.INVALID_UPDATE_VERSION: "`floodmark feature describe` shows names and levels",
    ErrorCode.BROKER_NOT_AVAILABLE: "`floodmark cluster describe` shows who is there",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`floodmark topic describe` shows the first and last offsets",
    ErrorCode.LEADER_NOT_AVAILABLE: "the log of its broker says why the partition is offline",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's log says what is wrong with its disk",
}
# Kafka's words, which every broker uses.
_UNKNOWN_CONFIG = re.compile(r"Unknown (topic|group) config name: (\S+)")


def admin_option(function: F) -> F:
    """How to reach the cluster: the command gets an `admin`, to be entered."""

    @client_options
    @wraps(function)
    def command(*, target: Target, **rest: Any) -> Any:
        return function(admin=admin_client(target), **rest)

    return cast(F, command)


def admin_client(target: Target) -> Admin:
    # Imported here because commands that only produce or consume do without it.
    from floodmark.client.admin.admin import Admin

    address, settings = target.resolve(ClientSettings)
    try:
        return Admin(address, settings)
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


async def existing_topics(admin: Admin, names: Iterable[str]) -> list[TopicView]:
    """In the order of the names; the first that does not exist is an error with a suggestion."""
    known = {topic.name: topic for topic in await admin.list_topics(include_internal=True)}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise no_such_topic(name, known)
    return [known[name] for name in wanted]


def no_such_topic(name: str, known: Iterable[str]) -> CliError:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    meant = closest(name, known)
    begin = "" if meant is None else f"did you mean {meant}? "
    return CliError(f"topic {name} does not exist ({code.name})", hint=begin + _HINTS[code])


async def check_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """One that does not exist is an error at once; asked for it, a client waits for it to come."""
    wanted = list(partitions)
    names = sorted({partition.topic for partition in wanted})
    topics = {topic.name: topic for topic in await existing_topics(admin, names)}
    for partition in wanted:
        known = topics[partition.topic].partitions
        if partition.partition not in known:
            raise no_such_partition(partition, len(known))


def failure(error: KafkaError, what: str | None = None) -> CliError:
    """A broker's refusal with what to do about it."""
    # Of a time that is over the last refusal says why.
    reason = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
    hint = _hint(reason)
    if what is None:
        return CliError(str(error), hint=hint)
    return CliError(what, why=str(error), hint=hint)


def _hint(error: KafkaError) -> str | None:
    if isinstance(error, UnsupportedApi):
        return "use a newer broker for this command"
    unknown = _UNKNOWN_CONFIG.search(error.text)
    if unknown is not None:
        return _config_hint(f"{unknown[1]}s", unknown[2])
    if error.code is ErrorCode.INVALID_RECORD and "key" in error.text:
        return "give every record a key, with --key or --key-separator"
    return _HINTS.get(error.code)


def _config_hint(kind: str, name: str) -> str:
    # Only mistakes need all the names.
    from floodmark.cli.commands.config_names import SETTINGS_OF

    meant = closest(name, SETTINGS_OF[kind])
    begin = "" if meant is None else f"did you mean {meant}? "
    return f"{begin}`floodmark config list {kind}` shows all names"
