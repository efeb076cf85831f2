"""Runs clients for commands: settings, the event loop, errors, interruption.

Every command that talks to a broker goes through `run_client`.
"""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Coroutine, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from floodmark.cli.errors import CliError, no_such_partition
from floodmark.cli.options import F, client_options
from floodmark.cli.target import Target
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.errors import ClientClosed, ConnectionFailed, KafkaError, UnsupportedApi
from floodmark.client.settings import ClientSettings, SettingsError
from floodmark.config.suggestions import closest
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import EncodeError

if TYPE_CHECKING:
    from floodmark.client.admin.admin import Admin

T = TypeVar("T")

TERMINATED = 128 + signal.SIGTERM
"""The exit code a shell reports for a process ended by SIGTERM."""

_ALLOW = "somebody with the right to alter ACLs can allow it: see `floodmark acl add --help`"
_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`floodmark topic list` lists the topics",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or add --if-not-exists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use letters, digits, '.', '_' and '-', at most 249 of them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "use at most as many replicas as there are brokers",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is at least 1 and can only grow",
    ErrorCode.INVALID_CONFIG: "`floodmark config list topics` shows names and types",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise max.message.bytes of the topic",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.SASL_AUTHENTICATION_FAILED: (
        "check the ssl.* and sasl.* settings in -X, --command-config or the profile"
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "log in with a password or a client certificate, over SASL or TLS"
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "`floodmark token describe` shows your tokens",
    ErrorCode.GROUP_ID_NOT_FOUND: "`floodmark group list` lists the groups",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first: `floodmark group members GROUP` lists them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read the topic first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`floodmark transaction list` shows the known ids",
    ErrorCode.INVALID_UPDATE_VERSION: "`floodmark feature describe` shows names and levels",
    ErrorCode.BROKER_NOT_AVAILABLE: "`floodmark cluster describe` lists the brokers",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`floodmark topic describe` shows the first and last offsets",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "`floodmark broker list` lists the cluster's brokers",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: (
        "`floodmark partition reassign --list` shows the moves in progress"
    ),
    ErrorCode.SECURITY_DISABLED: (
        "enable access control on the brokers with authorizer.class.name"
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: "its broker's log says why the partition is offline",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's log tells what its disk or ZooKeeper lacks",
}
# Kafka's message, which every broker uses.
_UNKNOWN_CONFIG = re.compile(r"Unknown (topic|group) config name: (\S+)")


def admin_option(function: F) -> F:
    """Connection options: the command gets an `admin` to enter."""

    @client_options
    @wraps(function)
    def command(*, target: Target, **rest: Any) -> Any:
        return function(admin=admin_client(target), **rest)

    return cast(F, command)


def admin_client(target: Target) -> Admin:
    # Imported late: commands that only produce or consume do not need it.
    from floodmark.client.admin.admin import Admin

    address, settings = target.resolve(ClientSettings)
    try:
        return Admin(address, settings)
    except ValueError as error:
        raise CliError(str(error)) from error


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Runs to completion. Failures become CLI errors; Ctrl-C ends quietly in `main`."""
    try:
        return asyncio.run(_until_terminated(work))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None
    except ConnectionFailed as error:
        raise unreachable(error) from error
    except KafkaError as error:
        raise failure(error) from error
    except EncodeError as error:
        raise CliError(
            "the command line has a number or name that does not fit into a request",
            why=str(error),
            hint="correct it; `--help` shows what the command takes",
        ) from error
    except (ClientClosed, SettingsError, ValueError) as error:
        raise CliError(str(error)) from error


def unreachable(error: ConnectionFailed) -> CliError:
    hint = "start one with `floodmark up`, or name another with --bootstrap-server"
    if "was closed" in error.text:
        # Something listens there: often a listener with another security protocol.
        hint = (
            "check the port; for a broker with TLS or SASL, name its settings with "
            "--command-config, -X or --profile"
        )
    return CliError("the broker is unreachable", why=error.text, hint=hint)


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Handles SIGTERM like Ctrl-C: a consumer commits its offsets and leaves its group."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


async def existing_topics(admin: Admin, names: Iterable[str]) -> list[TopicView]:
    """Returns topics in the order of the names. Fails with a suggestion if one is missing."""
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
    """Fails at once if a partition does not exist. A client would wait for it to appear."""
    wanted = list(partitions)
    names = sorted({partition.topic for partition in wanted})
    topics = {topic.name: topic for topic in await existing_topics(admin, names)}
    for partition in wanted:
        known = topics[partition.topic].partitions
        if partition.partition not in known:
            raise no_such_partition(partition, len(known))


def failure(error: KafkaError, what: str | None = None) -> CliError:
    """A broker's refusal with what to do about it."""
    hint = _hint(error.reason)
    if what is None:
        return CliError(str(error), hint=hint)
    return CliError(what, why=str(error), hint=hint)


def _hint(error: KafkaError) -> str | None:
    if isinstance(error, UnsupportedApi):
        return "use a newer broker for this command"
    unknown = _UNKNOWN_CONFIG.search(error.text)
    if unknown is not None:
        return _config_hint(f"{unknown[1]}s", unknown[2])
    if "parse principal" in error.text:
        return "write principals as User:NAME"
    if error.code is ErrorCode.MESSAGE_TOO_LARGE and "max.request.size" in error.text:
        return "send smaller records, or raise the client's limit: -X max.request.size=BYTES"
    if "has no partition" in error.text:
        return "choose one of these, or add partitions: `floodmark topic alter TOPIC -p 6`"
    if error.code is ErrorCode.INVALID_RECORD and "key" in error.text:
        return "give every record a key, with --key or --key-separator"
    return _HINTS.get(error.code)


def _config_hint(kind: str, name: str) -> str:
    # Imported late: only mistakes need the names.
    from floodmark.cli.commands.config_names import SETTINGS_OF

    meant = closest(name, SETTINGS_OF[kind])
    begin = "" if meant is None else f"did you mean {meant}? "
    return f"{begin}`floodmark config list {kind}` lists all names"
