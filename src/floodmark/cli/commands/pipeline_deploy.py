"""`floodmark pipeline package|submit`: brings a pipeline to a Spark cluster."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.options import pairs
from floodmark.cli.pipeline_kit import checkpoint_option, conf_option, path_argument, told
from floodmark.pipeline.authoring.loading import load_pipeline, load_run_options
from floodmark.pipeline.spark.packing import write_archive, write_rest
from floodmark.pipeline.spark.submitting import Submission, example_lines, installed_spark

_FOLDER = Path("dist")

output_folder_option = click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    default=_FOLDER,
    show_default=True,
    help="Folder for the archive.",
)
exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out installed files, such as 'torch/*'. May be repeated.",
)


@click.command(
    cls=Command,
    examples=[
        "floodmark pipeline package words",
        "floodmark pipeline package words --to build --exclude 'mypy*'",
    ],
)
@path_argument
@output_folder_option
@exclude_option
@click.option("--env", "environment", help="Environment in pipeline.toml.")
def package(path: Path, folder: Path, exclude: tuple[str, ...], environment: str | None) -> None:
    """Pack this Python environment and a pipeline, and print the spark-submit lines."""
    with told():
        options = load_run_options(path, environment)
        packed = _package(path, folder, exclude, environment)
    if options.checkpoint is None:
        arguments = [*packed.arguments, "--checkpoints", "s3a://BUCKET/checkpoints"]
        packed = replace(packed, arguments=arguments)
    for kind, line in example_lines(packed, folder).items():
        click.echo(f"\n{kind}:\n  {line}")


@click.command(
    cls=Command,
    examples=[
        "floodmark pipeline submit words --master spark://host:7077 "
        "--checkpoint s3a://my-bucket/checkpoints/words",
        "floodmark pipeline submit words --env production --deploy-mode cluster -- --once",
    ],
)
@path_argument
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF RUN]")
@click.option("--master", help="Spark master.  [the one in pipeline.toml]")
@click.option(
    "--deploy-mode",
    type=click.Choice(("client", "cluster")),
    help="Where the driver runs.  [client on standalone clusters, else cluster]",
)
@conf_option
@checkpoint_option
@output_folder_option
@exclude_option
@click.option("--env", "environment", help="Environment in pipeline.toml.")
@click.option("--dry-run", is_flag=True, help="Pack and print the command, run nothing.")
def submit(
    path: Path,
    arguments: tuple[str, ...],
    master: str | None,
    deploy_mode: str | None,
    spark_settings: tuple[str, ...],
    checkpoint: str | None,
    folder: Path,
    exclude: tuple[str, ...],
    environment: str | None,
    dry_run: bool,
) -> None:
    """Package a pipeline and run it on a cluster with spark-submit."""
    with told():
        options = load_run_options(path, environment)
        master = master or options.master
        if master is None:
            raise CliError(
                "no master is given",
                hint="add --master spark://host:7077, or master to [run] in pipeline.toml",
            )
        given = ["--checkpoint", checkpoint] if checkpoint else []
        if not given and options.checkpoint is None and not _names_checkpoint(arguments):
            raise CliError(
                "no checkpoint is given",
                why="a cluster needs a folder that all its machines see",
                hint="add --checkpoint s3a://bucket/folder, or checkpoint to [run] in the file",
            )
        packed = _package(path, folder, exclude, environment)
        submission = replace(
            packed,
            arguments=[*packed.arguments, *given, *arguments],
            # Settings such as jars count only when the JVM starts, before the file is read.
            conf={**options.conf, **pairs(spark_settings)},
        )
        command = submission.command(master, deploy_mode)
        click.echo(f"cd {shlex.quote(str(folder))} && {shlex.join(command)}", err=True)
        if not dry_run:
            sys.exit(_run(command, folder))


def _names_checkpoint(arguments: tuple[str, ...]) -> bool:
    return any(word.startswith("--checkpoint") for word in arguments)


def _package(
    path: Path, folder: Path, exclude: tuple[str, ...], environment: str | None
) -> Submission:
    loaded = load_pipeline(path, environment=environment)
    own = path if path.is_dir() else path.parent
    archive = folder / f"{loaded.name}.tar.gz"
    size = write_archive(archive, own, exclude)
    write_rest(folder)
    click.echo(f"{archive} holds this environment and {own} ({size / 1e6:.0f} MB)", err=True)
    arguments = [] if environment is None else ["--env", environment]
    return Submission(archive.name, path, arguments=arguments)


def _run(command: list[str], folder: Path) -> int:
    """Runs the cluster's own spark-submit, if SPARK_HOME names one; otherwise PySpark's."""
    home = Path(os.environ.get("SPARK_HOME") or installed_spark())
    program = home / "bin" / "spark-submit"
    if not program.exists():
        raise CliError(
            f"there is no spark-submit in {home}", hint="correct SPARK_HOME, or unset it"
        )
    variables = {**os.environ, "SPARK_HOME": str(home)}
    command = [str(program), *command[1:]]
    outcome = subprocess.run(command, check=False, env=variables, cwd=folder)
    return outcome.returncode
