"""What the commands of `floodmark pipeline` share: options, errors, signals, progress, Spark.

Used by the modules `commands/pipeline*.py` and by the demo.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from floodmark.cli.errors import CliError
from floodmark.cli.options import DEFAULT_BOOTSTRAP_SERVER, bootstrap_option, pairs
from floodmark.cli.session import unreachable
from floodmark.client.errors import ConnectionFailed, KafkaError
from floodmark.pipeline.authoring.checkpoints import DEFAULT_FOLDER
from floodmark.pipeline.errors import INSTALL_HINT, PipelineError
from floodmark.pipeline.spark.atomic_files import AnyPath, open_folder
from floodmark.pipeline.spark.hadoop_paths import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.progress import OutputProgress
    from floodmark.pipeline.authoring.runner import Runner

F = TypeVar("F", bound=Callable[..., Any])

checkpoints_option = click.option(
    "--checkpoints",
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar="FLOODMARK_CHECKPOINTS",
    show_envvar=True,
    help="Folder that holds the checkpoints; s3a://bucket/folder, hdfs://host/folder, ...",
)
checkpoint_option = click.option(
    "--checkpoint", help="Checkpoint folder of this pipeline.  [CHECKPOINTS/NAME]"
)
conf_option = click.option(
    "--conf", "spark_settings", multiple=True, metavar="NAME=VALUE", help="Spark setting."
)


@dataclass(frozen=True)
class SparkOptions:
    """How the command line wants Spark. What it leaves out may be in pipeline.toml."""

    master: str | None
    conf: dict[str, str]
    log_level: str | None


def file_options(function: F) -> F:
    """Settings, broker and Spark; the command gets `environment`, `settings` and the rest."""
    options = [
        click.option(
            "--env",
            "environment",
            envvar="FLOODMARK_PIPELINE_ENV",
            show_envvar=True,
            help="Environment in pipeline.toml.",
        ),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting."),
        click.option(
            "--master",
            help="Spark master, such as spark://host:7077.  [spark-submit's, or local[2]]",
        ),
        conf_option,
        click.option(
            "--spark-log",
            type=click.Choice(("OFF", "ERROR", "WARN", "INFO", "DEBUG"), case_sensitive=False),
            help="Spark's own log level on stderr.  [OFF, or spark-submit's]",
        ),
        bootstrap_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def path_argument(function: F) -> F:
    return click.argument(
        "path", type=click.Path(path_type=Path), default=Path(), metavar="[FILE]", required=False
    )(function)


def broker_of(bootstrap_server: str, in_file: str | None) -> str:
    """The address on the command line, in the environment or a profile; else the file's."""
    source = click.get_current_context().get_parameter_source("bootstrap_server")
    # A profile's address comes as the value of an option that was not given.
    is_open = source is ParameterSource.DEFAULT and bootstrap_server == DEFAULT_BOOTSTRAP_SERVER
    return in_file if in_file is not None and is_open else bootstrap_server


@contextmanager
def opened(folder: str, spark_settings: tuple[str, ...]) -> Iterator[AnyPath]:
    """A folder for commands that run no pipeline. One elsewhere needs Spark's file systems."""
    if not is_remote(folder):
        yield open_folder(folder)
        return
    from floodmark.pipeline.spark.session import spark_session

    settings = pairs(spark_settings)
    with spark_session("floodmark", master="local[1]", settings=settings, is_short=True) as spark:
        yield open_folder(folder, spark)


@contextmanager
def told() -> Iterator[None]:
    """Turns pipeline failures into CLI errors."""
    try:
        yield
    except ConnectionFailed as error:
        raise unreachable(error) from error
    except (PipelineError, KafkaError) as error:
        raise CliError(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise CliError(f"{error.filename} could not be used", why=error.strerror) from error
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j", "pyarrow", "numpy", "pandas"):
            raise
        raise CliError("pipelines need PySpark", why=str(error), hint=INSTALL_HINT) from error


@contextmanager
def stopped_by_signals(*runners: Runner) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop pipelines cleanly; a second Ctrl-C stops them immediately."""

    def stop(_number: int, _frame: object) -> None:
        click.echo("stopping after the current batches (press Ctrl-C again to stop now)", err=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for runner in runners:
            runner.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Show = Callable[[list["OutputProgress"]], None]


@contextmanager
def shown(pipelines: Sequence[str]) -> Iterator[Callable[[str], Show]]:
    """Yields what shows a pipeline's progress: a live table on a terminal, otherwise lines.

    Names of outputs stand alone if there is one pipeline, else after its name.
    """

    def named(pipeline: str, show: Show) -> Show:
        if len(pipelines) == 1:
            return show
        return lambda outputs: show(
            [replace(item, name=f"{pipeline}.{item.name}") for item in outputs]
        )

    if not sys.stdout.isatty():
        lines = NewLines(click.echo)
        yield lambda pipeline: named(pipeline, lines)
        return
    from rich.live import Live

    from floodmark.pipeline.authoring.progress import table_of

    latest: dict[str, OutputProgress] = {}
    with Live(refresh_per_second=4) as live:

        def update(outputs: list[OutputProgress]) -> None:
            latest.update({item.name: item for item in outputs})
            live.update(table_of(list(latest.values())))

        yield lambda pipeline: named(pipeline, update)


class NewLines:
    """Prints an output's line whenever it changes.

    Spark reports an idle query under the number of its next batch, so the number alone does not
    show whether there is progress.
    """

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._seen: dict[str, tuple[int, int, int]] = {}

    def __call__(self, outputs: list[OutputProgress]) -> None:
        for item in outputs:
            if item.batch is None:
                continue
            news = (item.batch, item.rows_in, item.rows_out)
            if self._seen.get(item.name) != news:
                self._seen[item.name] = news
                self._echo(item.line())


def session_of(spark: SparkSession, shuffle_partitions: int) -> SparkSession:
    """A session of its own on the same Spark: views and the number of tasks are per pipeline."""
    from floodmark.pipeline.spark.session import register_source

    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))
    register_source(session)
    return session
