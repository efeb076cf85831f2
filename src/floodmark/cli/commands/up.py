"""`floodmark up`: runs a broker or a cluster in the foreground until Ctrl-C or SIGTERM.

Merges properties from the file, the environment, `--set` and the options, in increasing
precedence, and hands them to `broker.main.run`.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
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
# Environment variables for options of this command, not for broker settings.
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


@dataclass(frozen=True)
class UpOptions:
    """The options of the command, as click passes them."""

    brokers: int
    broker_id: int | None
    cluster_dir: str | None
    zookeeper: str | None
    host: str | None
    port: int | None
    data_dir: str | None
    config_file: str | None
    secure: bool
    security_dir: str | None
    pairs: tuple[str, ...]
    metrics_port: int | None
    metrics_host: str | None
    log_format: str
    log_level: str

    @property
    def first_port(self) -> int:
        return DEFAULT_PORT if self.port is None else self.port


@click.command(
    cls=Command,
    examples=[
        "floodmark up",
        "floodmark up --port 9093 --data-dir /var/lib/floodmark --metrics-port 9404",
        "floodmark up --config server.properties --set log.retention.hours=24",
        "floodmark up --host 0.0.0.0 --set advertised.listeners=PLAINTEXT://my-host:9092",
        "floodmark up --secure",
        "floodmark up --secure --brokers 3",
        "floodmark up --brokers 3",
        "floodmark up --broker-id 2 --cluster-dir shared --port 9093 --data-dir broker-2",
        "floodmark up --broker-id 2 --zookeeper zk1:2181,zk2:2181/kafka --host 10.0.0.2",
    ],
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 99),
    default=1,
    help="Run a local cluster of this many brokers, on --port and the ports after it.",
)
@click.option(
    "--broker-id", type=click.IntRange(0), help="This broker's id in the cluster (node.id)."
)
@click.option(
    "--cluster-dir",
    type=click.Path(file_okay=False),
    help="Folder shared by the brokers of a local cluster (floodmark.cluster.dir).",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/PATH]",
    help="ZooKeeper for a cluster across machines (zookeeper.connect).",
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
    help="Use TLS and passwords; creates a development CA and an admin user in the data folder.",
)
@click.option(
    "--security-dir",
    type=click.Path(file_okay=False),
    help="Folder for the files of --secure, to share it among brokers.  [security in --data-dir]",
)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Broker setting.")
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
    help="Address to bind for metrics.  [the broker's]",
)
@click.option(
    "--log-format",
    type=click.Choice(["plain", "json"]),
    default="plain",
    envvar=_OPTION_VARIABLES["log_format"],
    show_envvar=True,
    show_default=True,
    help="Log format on stderr: text or JSON.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar=_OPTION_VARIABLES["log_level"],
    show_envvar=True,
    show_default=True,
    help="Lowest level to log.",
)
def up(**given: Any) -> int:
    """Run a broker, or a cluster with --brokers.

    Set any Kafka server.properties setting in --config, in the environment as FLOODMARK_LOG_DIRS
    (dots become underscores), or with --set log.dirs=... Later sources override earlier ones.
    """
    options = UpOptions(**given)
    _refuse_conflicts(options)
    if options.brokers > 1:
        return _run_cluster(options)
    try:
        return _run_broker(options)
    except ConfigError as error:
        what = "invalid broker settings"
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
            hint="fix the problem above, or choose another --data-dir",
        ) from error
    except OSError as error:
        raise CliError("the broker cannot start", **_why_and_hint(error)) from error


def _refuse_conflicts(options: UpOptions) -> None:
    if options.security_dir is not None and not options.secure:
        raise CliError(
            "--security-dir works with --secure only",
            why="without --secure the broker uses the keys that its settings name",
            hint="add --secure, or leave out --security-dir",
        )
    of_one = (options.broker_id, options.cluster_dir, options.zookeeper, options.metrics_port)
    if options.brokers > 1 and set(of_one) != {None}:
        raise CliError(
            "--brokers starts a whole cluster",
            why="--broker-id, --cluster-dir, --zookeeper, --metrics-port apply to one broker",
            hint="drop --brokers or the other options",
        )


def _run_cluster(options: UpOptions) -> int:
    from floodmark.cli.commands.up_cluster import ClusterPlan, run_cluster

    shared = ["--log-format", options.log_format, "--log-level", options.log_level]
    shared += ["--config", options.config_file] if options.config_file is not None else []
    shared += [word for pair in options.pairs for word in ("--set", pair)]
    folder = Path(options.data_dir or DEFAULT_DATA_DIR)
    security = None
    if options.secure:
        from floodmark.cli.commands.up_secure import secure_folder

        security = secure_folder(folder, options.security_dir)
    host = options.host or DEFAULT_HOST
    plan = ClusterPlan(options.brokers, host, options.first_port, folder, shared, security)
    return run_cluster(plan)


def _run_broker(options: UpOptions) -> int:
    ready: Callable[[Broker], None] = _say_ready
    properties = merge_sources(
        file=_read_file(options.config_file),
        environment=parse_environment(_broker_environment(os.environ)),
        pairs=parse_pairs(options.pairs),
    )
    host, port, data_dir = options.host, options.port, options.data_dir
    if options.secure:
        properties, folder = _secured(options, properties)
        ready = partial(_say_secure, folder=folder)
        host = port = None
    properties |= _option_properties(host, port, data_dir, properties)
    properties |= _member_properties(options.broker_id, options.cluster_dir, options.zookeeper)
    # Imported late: --help and usage errors need no broker.
    from floodmark.broker.main import run

    return run(
        properties,
        metrics_port=options.metrics_port,
        metrics_host=options.metrics_host,
        log_format=options.log_format,
        log_level=options.log_level,
        ready=ready,
    )


def _secured(options: UpOptions, properties: dict[str, str]) -> tuple[dict[str, str], Path]:
    """The properties with those of --secure, and the folder of its keys."""
    _refuse_listeners(properties)
    from floodmark.cli.commands.up_secure import secure_folder, secure_properties

    data = Path(options.data_dir or properties.get("log.dirs") or DEFAULT_DATA_DIR)
    folder = secure_folder(data, options.security_dir)
    host = options.host or DEFAULT_HOST
    made = secure_properties(folder, host, options.first_port, options.broker_id)
    return {**made, **properties}, folder


def _why_and_hint(error: OSError) -> dict[str, str]:
    """An error with a file name is a disk problem; without one it concerns a listener."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "raise the open file limit (ulimit -n): each partition needs at least one"
        return {"why": error.strerror or str(error), "hint": hint}
    if error.filename is not None:
        return {"why": str(error), "hint": "fix the problem above, or choose another --data-dir"}
    return {
        "why": error.strerror or str(error),
        "hint": "choose another --host, --port, --metrics-host or --metrics-port, or stop the "
        "process that listens there",
    }


def _read_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a UTF-8 text file: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} could not be read: {error.strerror}") from error
    return parse_toml(text) if path.endswith(".toml") else parse_properties(text)


def _broker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    ours = set(_OPTION_VARIABLES.values())
    return {name: value for name, value in environment.items() if name not in ours}


def _option_properties(
    host: str | None, port: int | None, data_dir: str | None, given: Mapping[str, str]
) -> dict[str, str]:
    """The properties behind --host, --port and --data-dir. --data-dir overrides all other sources.

    Refuses --host and --port next to `listeners`: with several named listeners, it is unclear which
    one they refer to.
    """
    properties: dict[str, str] = {}
    if "listeners" in given and (host is not None or port is not None):
        raise ConfigError(
            f"--host and --port ({_OPTION_VARIABLES['host']}, {_OPTION_VARIABLES['port']}) "
            f"conflict with listeners={given['listeners']}",
            name="listeners",
            hint="Drop them, or use only --set listeners=PLAINTEXT://host:port",
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
                f"--secure conflicts with {name}={given[name]}",
                name=name,
                hint="Drop one of them: --secure sets up its own listener",
            )


def _say_secure(broker: Broker, folder: Path) -> None:
    from floodmark.cli.commands.up_secure import say_secure

    click.echo(f"floodmark listens on {broker.address}, data in {broker.config.log_dirs[0]}")
    say_secure(folder, broker.address, _command())
    click.echo("  stop: Ctrl-C")


def _say_ready(broker: Broker) -> None:
    """Prints the address and the next steps on stdout. Logs go to stderr."""
    address = broker.address
    reachable = address
    for wildcard in ("0.0.0.0", "[::]", "::"):
        if address.rpartition(":")[0] == wildcard:
            reachable = f"127.0.0.1:{address.rpartition(':')[2]}"
    option = "" if reachable == f"{DEFAULT_HOST}:{DEFAULT_PORT}" else f" -b {reachable}"
    command = _command()
    click.echo(f"floodmark listens on {address}, data in {', '.join(broker.config.log_dirs)}")
    click.echo(f"  send a first record:  echo hello | {command} produce greetings{option}")
    click.echo(f"  read it back:         {command} consume greetings --from-beginning{option}")
    click.echo("  stop: Ctrl-C")


def _command() -> str:
    """The command to type for this program: its full path if it is not on the PATH."""
    path = Path(sys.argv[0])
    if path.name != PROGRAM or shutil.which(PROGRAM) is not None:
        return PROGRAM
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
