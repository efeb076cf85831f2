"""`floodmark pipeline new|check|run|status|reset`: Spark pipelines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import bootstrap_option, output_option, pairs
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import run_client, unreachable
from floodmark.client.errors import ConnectionFailed, KafkaError
from floodmark.pipeline.authoring.checkpoints import (
    DEFAULT_FOLDER,
    Checkpoint,
    find_checkpoints,
    held,
    held_checkpoint,
    read_checkpoint,
    remove,
)
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.status import delete_groups, status_of
from floodmark.pipeline.authoring.template import write_template
from floodmark.pipeline.errors import INSTALL_HINT, PipelineError

if TYPE_CHECKING:
    from floodmark.pipeline.authoring.declarations import Pipeline
    from floodmark.pipeline.authoring.progress import OutputProgress
    from floodmark.pipeline.authoring.runner import Runner

F = TypeVar("F", bound=Callable[..., Any])

checkpoints_option = click.option(
    "--checkpoints",
    type=click.Path(path_type=Path),
    default=Path(DEFAULT_FOLDER),
    show_default=True,
    help="Folder that holds the checkpoints.",
)


@click.group(
    cls=Group,
    examples=[
        "floodmark pipeline new words",
        "floodmark pipeline run words --once",
        "floodmark pipeline status",
    ],
)
def pipeline() -> None:
    """Create, check and run Spark pipelines.

    Start with `floodmark pipeline new NAME`. Requires the `spark` extra and Java 17 or later.
    """


def _file_options(function: F) -> F:
    options = [
        click.argument(
            "path",
            type=click.Path(path_type=Path),
            default=Path(),
            metavar="[FILE]",
            required=False,
        ),
        click.option("--env", "environment", help="Environment in pipeline.toml."),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting."),
        click.option("--master", help="Spark master, such as spark://host:7077 [local[2]]."),
        click.option(
            "--conf", "spark_settings", multiple=True, metavar="NAME=VALUE", help="Spark setting."
        ),
        click.option(
            "--spark-log",
            type=click.Choice(("OFF", "ERROR", "WARN", "INFO", "DEBUG"), case_sensitive=False),
            default="OFF",
            help="Spark's own log level on stderr.",
        ),
        bootstrap_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


@pipeline.command(examples=["floodmark pipeline new words"])
@click.argument("name")
def new(name: str) -> None:
    """Create a folder with a working pipeline."""
    with told():
        folder = write_template(Path(name))
    click.echo(f"{folder}/pipeline.py is ready. Next, with a broker running (`floodmark up`):")
    click.echo(f"  floodmark topic create {folder.name}-words")
    click.echo(f"  echo 'the river rises' | floodmark produce {folder.name}-words")
    click.echo(f"  floodmark pipeline run {folder} --once")
    click.echo(f"  floodmark consume {folder.name}-counts --from-beginning")


@pipeline.command(examples=["floodmark pipeline check words --env production"])
@_file_options
def check(
    path: Path,
    environment: str | None,
    settings: tuple[str, ...],
    master: str | None,
    spark_settings: tuple[str, ...],
    spark_log: str,
    bootstrap_server: str,
) -> None:
    """Build the plan and report mistakes by line, without running anything."""
    with told():
        loaded = load_pipeline(path, environment=environment, overrides=pairs(settings))
        with _runner(loaded, None, master, spark_settings, spark_log, bootstrap_server) as runner:
            built = runner.check()
    for item in built:
        click.echo(f"{item.output.name}: {', '.join(item.topics)} -> {item.target}")
    click.echo(f"pipeline {loaded.name} is ready to run")


@pipeline.command(
    examples=[
        "floodmark pipeline run words",
        "floodmark pipeline run words --once --set window=5m",
    ]
)
@_file_options
@click.option("--once", is_flag=True, help="Process the available records, then stop.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint folder.  [.floodmark/NAME]",
)
def run(
    path: Path,
    environment: str | None,
    settings: tuple[str, ...],
    master: str | None,
    spark_settings: tuple[str, ...],
    spark_log: str,
    bootstrap_server: str,
    once: bool,
    checkpoint: Path | None,
) -> None:
    """Run a pipeline until Ctrl-C, or once over the available records."""
    with told():
        loaded = load_pipeline(path, environment=environment, overrides=pairs(settings))
        folder = checkpoint or Path(DEFAULT_FOLDER) / loaded.name
        with (
            # Check before Spark starts, which takes seconds, and before anything is written.
            held_checkpoint(folder, loaded.name, bootstrap_server) as place,
            _runner(loaded, place, master, spark_settings, spark_log, bootstrap_server) as runner,
            stopped_by_signals(runner),
            _shown() as show,
        ):
            runner.run(once=once, show=show)
    click.echo(f"pipeline {loaded.name} has stopped; it will resume from {folder}", err=True)


@pipeline.command(examples=["floodmark pipeline status -o json"])
@checkpoints_option
@output_option
def status(checkpoints: Path, output: str) -> None:
    """Show each pipeline's last batch and lag."""
    with told():
        found = find_checkpoints(checkpoints)
        rows = [row for item in found for row in run_client(status_of(item))]
    if output == JSON:
        print_json([row.as_document() for row in rows])
        return
    if not rows:
        click.echo(f"no pipeline has run here yet (looked in {checkpoints})")
        return
    print_table(
        ["PIPELINE", "OUTPUT", "LAST BATCH", "FINISHED", "LAG", "GROUP"],
        [[r.pipeline, r.output, r.batch, r.finished_at, r.lag, r.group] for r in rows],
    )


@pipeline.command(examples=["floodmark pipeline reset words --yes"])
@click.argument("name")
@checkpoints_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint folder.  [.floodmark/NAME]",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def reset(name: str, checkpoints: Path, checkpoint: Path | None, yes: bool) -> None:
    """Delete a pipeline's position and state, so that it starts over. Keeps its outputs."""
    with told():
        found = read_checkpoint(checkpoint or checkpoints / name)
        if found is None or found.pipeline != name:
            known = ", ".join(item.pipeline for item in find_checkpoints(checkpoints)) or "none"
            raise CliError(f"pipeline {name} has no checkpoint", hint=f"known: {known}")
        if not yes:
            click.confirm(f"Delete position and state of {name} in {found.folder}?", abort=True)
        with held(found):
            _delete_groups(found)
            remove(found)
    click.echo(f"pipeline {name} will start over on its next run")


def _delete_groups(found: Checkpoint) -> None:
    """Ignores a missing broker: the groups only serve as a display."""
    try:
        run_client(delete_groups(found))
    except CliError as error:
        click.echo(f"the groups of {found.pipeline} were not deleted: {error.message}", err=True)


@contextmanager
def _runner(
    loaded: Pipeline,
    checkpoint: Checkpoint | None,
    master: str | None,
    spark_settings: tuple[str, ...],
    spark_log: str,
    bootstrap_server: str,
) -> Iterator[Runner]:
    from floodmark.pipeline.authoring.runner import Runner
    from floodmark.pipeline.spark.session import spark_session

    with spark_session(
        loaded.name,
        master=master,
        shuffle_partitions=loaded.shuffle_partitions,
        settings={**loaded.spark_settings, **pairs(spark_settings)},
        log_level=spark_log,
    ) as spark:
        yield Runner(spark, loaded, bootstrap_server=bootstrap_server, checkpoint=checkpoint)


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
        if error.name not in ("pyspark", "pyarrow", "numpy", "pandas"):
            raise
        raise CliError("pipelines need PySpark", why=str(error), hint=INSTALL_HINT) from error


@contextmanager
def stopped_by_signals(runner: Runner) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the pipeline cleanly; a second Ctrl-C stops it immediately."""

    def stop(_number: int, _frame: object) -> None:
        click.echo("stopping after the current batches (press Ctrl-C again to stop now)", err=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        runner.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shown() -> Iterator[Callable[[list[OutputProgress]], None]]:
    """A live table on a terminal, otherwise one line per batch."""
    if sys.stdout.isatty():
        from rich.live import Live

        from floodmark.pipeline.authoring.progress import table_of

        with Live(refresh_per_second=4) as live:
            yield lambda outputs: live.update(table_of(outputs))
        return
    yield NewLines(click.echo)


class NewLines:
    """Prints an output's line whenever it changes.

    Spark reports an idle query under the number of its next batch, so the number alone does not
    show whether there is progress.
    """

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._seen: dict[str, tuple[int, int]] = {}

    def __call__(self, outputs: list[OutputProgress]) -> None:
        for item in outputs:
            if item.batch is None:
                continue
            news = (item.batch, item.rows_in)
            if self._seen.get(item.name) != news:
                self._seen[item.name] = news
                self._echo(item.line())
