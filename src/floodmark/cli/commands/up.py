"""`floodmark up`: a broker, or a cluster, in the foreground, until Ctrl-C or SIGTERM.

Gathers properties from the file, the environment, `--set` and the options, in rising order of
weight, and hands them to `broker.main.run`.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.options import DEFAULT_BOOTSTRAP_SERVER
from floodmark.config.errors import ConfigError
from floodmark.config.loaders import (
    merge_sources,
    parse_environment,
    parse_pairs,
    parse_properties,
    parse_toml,
)
from floodmark.storage.errors import LogDirLocked, StorageError

if TYPE_CHECKING:
    from floodmark.broker.broker import Broker

PROGRAM = "floodmark"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA_DIR = "floodmark-data"
# Variables that stand for options of this command and not for settings of the broker.
_OPTION_VARIABLES = {
    "host": "FLOODMARK_HOST",
    "port": "FLOODMARK_PORT",
    "data_dir": "FLOODMARK_DATA_DIR",
    "config": "FLOODMARK_CONFIG",
    "metrics_port": "FLOODMARK_METRICS_PORT",
    "metrics_host": "FLOODMARK_METRICS_HOST",
    "log_format": "FLOODMARK_LOG_FORMAT",
    "log_level": "FLOODMARK_LOG_LEVEL",
}


@click.command(
    cls=Command,
    examples=[
        "floodmark up",
        "floodmark up --port 9093 --data-dir /var/lib/floodmark --metrics-port 9404",
        "floodmark up --config server.properties --set log.retention.hours=24",
        "floodmark up --host 0.0.0.0 --set advertised.listeners=PLAINTEXT://my-host:9092",
        "floodmark up --secure",
        "floodmark up --brokers 3",
        "floodmark up --broker-id 2 --cluster-dir shared --port 9093 --data-dir broker-2",
        "floodmark up --broker-id 2 --zookeeper zk1:2181,zk2:2181/kafka --host 10.0.0.2",
    ],
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 99),
    default=1,
    help="Run a cluster of so many brokers on this machine, on --port and those after it.",
)
@click.option(
    "--broker-id", type=click.IntRange(0), help="The id of this broker in its cluster (node.id)."
)
@click.option(
    "--cluster-dir",
    type=click.Path(file_okay=False),
    help="Folder that the brokers of a cluster on this machine share (floodmark.cluster.dir).",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/PATH]",
    help="ZooKeeper of a cluster on several machines (zookeeper.connect).",
)
@click.option(
    "--host",
    envvar=_OPTION_VARIABLES["host"],
    show_envvar=True,
    help="Address to bind.  [127.0.0.1]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar=_OPTION_VARIABLES["port"],
    show_envvar=True,
    help="Port to bind; 0 picks a free one.  [9092]",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    envvar=_OPTION_VARIABLES["data_dir"],
    show_envvar=True,
    help="Folder for the logs (log.dirs).  [floodmark-data]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    envvar=_OPTION_VARIABLES["config"],
    show_envvar=True,
    help="A server.properties file, or TOML if it ends in .toml.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Listen with TLS and passwords; makes a development CA and an admin in the data folder.",
)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="One broker setting.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    envvar=_OPTION_VARIABLES["metrics_port"],
    show_envvar=True,
    help="Serve /metrics and /healthz on this port.",
)
@click.option(
    "--metrics-host",
    envvar=_OPTION_VARIABLES["metrics_host"],
    help="Address to bind for the metrics.  [that of the broker]",
)
@click.option(
    "--log-format",
    type=click.Choice(["plain", "json"]),
    default="plain",
    envvar=_OPTION_VARIABLES["log_format"],
    show_envvar=True,
    show_default=True,
    help="Log lines on stderr for people or for machines.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar=_OPTION_VARIABLES["log_level"],
    show_envvar=True,
    show_default=True,
    help="The least important lines to log.",
)
def up(
    brokers: int,
    broker_id: int | None,
    cluster_dir: str | None,
    zookeeper: str | None,
    host: str | None,
    port: int | None,
    data_dir: str | None,
    config_file: str | None,
    secure: bool,
    pairs: tuple[str, ...],
    metrics_port: int | None,
    metrics_host: str | None,
    log_format: str,
    log_level: str,
) -> int:
    """Run a broker, or with --brokers a cluster of them.

    Every setting of Kafka's server.properties can be given in --config, as FLOODMARK_LOG_DIRS in
    the environment (dots become underscores), or with --set log.dirs=...; later ones win.
    """
    _open_standard_descriptors()
    if brokers > 1 and secure:
        raise CliError(
            "--secure is for one broker",
            why="the brokers of --brokers listen in plaintext on this machine",
            hint="start one broker, or give each of them listeners and keys in --config",
        )
    if brokers > 1:
        if {broker_id, cluster_dir, zookeeper, metrics_port} != {None}:
            raise CliError(
                "--brokers starts all brokers of a cluster",
                why="--broker-id, --cluster-dir, --zookeeper, --metrics-port are for one of them",
                hint="leave out either the one or the others",
            )
        from floodmark.cli.commands.up_cluster import ClusterPlan, run_cluster

        shared = ["--log-format", log_format, "--log-level", log_level]
        shared += ["--config", config_file] if config_file is not None else []
        shared += [word for pair in pairs for word in ("--set", pair)]
        first_port = DEFAULT_PORT if port is None else port
        folder = Path(data_dir or DEFAULT_DATA_DIR)
        plan = ClusterPlan(brokers, host or DEFAULT_HOST, first_port, folder, shared)
        return run_cluster(plan)
    try:
        properties = merge_sources(
            file=_read_file(config_file),
            environment=parse_environment(_broker_environment(os.environ)),
            pairs=parse_pairs(pairs),
        )
        if secure:
            _refuse_listeners(properties)
            from floodmark.cli.commands.up_secure import secure_properties

            folder = Path(data_dir or properties.get("log.dirs") or DEFAULT_DATA_DIR)
            bound = DEFAULT_PORT if port is None else port
            properties = {**secure_properties(folder, host or DEFAULT_HOST, bound), **properties}
            host = port = None
        properties |= _option_properties(host, port, data_dir, properties)
        properties |= _member_properties(broker_id, cluster_dir, zookeeper)
        # Imported late: --help and wrong options need no broker.
        from floodmark.broker.main import run

        return run(
            properties,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            log_format=log_format,
            log_level=log_level,
            ready=_say_secure if secure else _say_ready,
        )
    except ConfigError as error:
        what = "the broker cannot start with these settings"
        raise CliError(what, why=str(error), hint=error.hint) from error
    except LogDirLocked as error:
        raise CliError(
            "the broker cannot start",
            why=str(error),
            hint="choose another --data-dir, or stop the broker that uses this one",
        ) from error
    except StorageError as error:
        raise CliError(
            "the broker cannot start",
            why=str(error),
            hint="mend what is named there, or choose another --data-dir",
        ) from error
    except OSError as error:
        raise CliError("the broker cannot start", **_why_and_hint(error)) from error


def _why_and_hint(error: OSError) -> dict[str, str]:
    """An error that names a file is about the disk; one of a listener does not."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "raise the limit of open files (ulimit -n): each partition needs one or more"
        return {"why": error.strerror or str(error), "hint": hint}
    if error.filename is not None:
        return {"why": str(error), "hint": "mend what is named there, or choose another --data-dir"}
    return {
        "why": error.strerror or str(error),
        "hint": "choose another --host, --port, --metrics-host or --metrics-port, or stop what "
        "listens there",
    }


def _open_standard_descriptors() -> None:
    """Started with one of them closed, a broker would get its number for a file or a socket, which
    whatever prints then writes into, and which uvloop refuses to close.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free, hence this one.
            os.open(os.devnull, os.O_RDWR)


def _read_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file in UTF-8: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    return parse_toml(text) if path.endswith(".toml") else parse_properties(text)


def _broker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    ours = set(_OPTION_VARIABLES.values())
    return {name: value for name, value in environment.items() if name not in ours}


def _option_properties(
    host: str | None, port: int | None, data_dir: str | None, given: Mapping[str, str]
) -> dict[str, str]:
    """The properties behind --host, --port and --data-dir, of which the last wins over all others.

    Listeners have names, protocols and addresses, several of them perhaps: what one host or port
    means for them nobody can guess.
    """
    properties: dict[str, str] = {}
    if "listeners" in given and (host is not None or port is not None):
        raise ConfigError(
            f"--host and --port ({_OPTION_VARIABLES['host']}, {_OPTION_VARIABLES['port']}) "
            f"contradict listeners={given['listeners']}, which was given too",
            name="listeners",
            hint="Leave them out, or say all of it with --set listeners=PLAINTEXT://host:port",
        )
    if data_dir is not None:
        properties["log.dirs"] = data_dir
    if "listeners" not in given:
        shown = host or DEFAULT_HOST
        if ":" in shown and not shown.startswith("["):
            shown = f"[{shown}]"
        bound = DEFAULT_PORT if port is None else port
        properties["listeners"] = f"PLAINTEXT://{shown}:{bound}"
    return properties


def _member_properties(
    broker_id: int | None, cluster_dir: str | None, zookeeper: str | None
) -> dict[str, str]:
    properties: dict[str, str] = {}
    if broker_id is not None:
        properties["node.id"] = str(broker_id)
    if cluster_dir is not None:
        properties["floodmark.cluster.dir"] = cluster_dir
    if zookeeper is not None:
        properties["zookeeper.connect"] = zookeeper
    return properties


def _refuse_listeners(given: Mapping[str, str]) -> None:
    for name in ("listeners", "advertised.listeners"):
        if name in given:
            raise ConfigError(
                f"--secure contradicts {name}={given[name]}, which was given too",
                name=name,
                hint="Leave out one of them: --secure makes a listener of its own",
            )


def _say_secure(broker: Broker) -> None:
    from floodmark.cli.commands.up_secure import say_secure

    folder = broker.config.log_dirs[0]
    click.echo(f"floodmark listens on {broker.address}, data in {folder}")
    say_secure(Path(folder), broker.address, _command())
    click.echo("  stop: Ctrl-C")


def _say_ready(broker: Broker) -> None:
    """Where it listens and what to type next; on stdout, logs go to stderr."""
    address = broker.address
    reachable = address
    for wildcard in ("0.0.0.0", "[::]", "::"):
        if address.rpartition(":")[0] == wildcard:
            reachable = f"127.0.0.1:{address.rpartition(':')[2]}"
    option = "" if reachable == DEFAULT_BOOTSTRAP_SERVER else f" -b {reachable}"
    command = _command()
    click.echo(f"floodmark listens on {address}, data in {', '.join(broker.config.log_dirs)}")
    click.echo(f"  send a first record:  echo hello | {command} produce greetings{option}")
    click.echo(f"  read it back:         {command} consume greetings --from-beginning{option}")
    click.echo("  stop: Ctrl-C")


def _command() -> str:
    """What to type for this program: its path where the shell would not find it."""
    path = Path(sys.argv[0])
    if path.name != PROGRAM or shutil.which(PROGRAM) is not None:
        return PROGRAM
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
