"""`floodmark pipeline new|check|status|reset`: Spark pipelines.

`pipeline_run.py` runs them, `pipeline_deploy.py` brings them to a cluster, `pipeline_replay.py` and
`pipeline_dead_letters.py` repair what they have done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from floodmark.cli.commands.pipeline_dead_letters import dead_letters
from floodmark.cli.commands.pipeline_deploy import package, submit
from floodmark.cli.commands.pipeline_replay import drop, replay
from floodmark.cli.commands.pipeline_run import run
from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.pipeline_kit import (
    checkpoint_option,
    checkpoints_option,
    conf_option,
    file_options,
    opened,
    path_argument,
    told,
)
from floodmark.cli.pipeline_plans import PlanOptions
from floodmark.cli.session import run_client
from floodmark.pipeline.authoring.checkpoints import (
    Checkpoint,
    existing_checkpoint,
    find_checkpoints,
    held,
    read_checkpoint,
    remove,
)
from floodmark.pipeline.authoring.status import OutputStatus, delete_groups, status_of
from floodmark.pipeline.authoring.template import write_template
from floodmark.pipeline.spark.atomic_files import open_folder


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


pipeline.add_command(run)
pipeline.add_command(package)
pipeline.add_command(submit)
pipeline.add_command(dead_letters)
pipeline.add_command(replay)
pipeline.add_command(drop)


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
    click.echo(f"  floodmark consume {folder.name}-counts --from-beginning -F '%k %s\\n'")


@pipeline.command(examples=["floodmark pipeline check words --env production"])
@path_argument
@file_options
@checkpoint_option
@checkpoints_option
def check(path: Path, **given: Any) -> None:
    """Build the plan and report mistakes by line, without running anything.

    Also reports changes that an existing checkpoint does not allow.
    """
    with told():
        wanted = PlanOptions(**given)
        planned = wanted.plan(path)
        from floodmark.pipeline.authoring.runner import Runner
        from floodmark.pipeline.spark.session import spark_session

        loaded, broker = planned.pipeline, planned.bootstrap_server
        with spark_session(
            loaded.name,
            master=wanted.spark.master or planned.options.master,
            shuffle_partitions=loaded.shuffle_partitions,
            settings={**loaded.spark_settings, **planned.options.conf, **wanted.spark.conf},
            log_level=wanted.spark.log_level,
        ) as spark:
            known = existing_checkpoint(open_folder(planned.folder, spark), loaded.name)
            built = Runner(spark, loaded, bootstrap_server=broker, checkpoint=known).check()
    for item in built:
        click.echo(f"{item.output.name}: {item.inputs} -> {item.target}")
    click.echo(f"pipeline {loaded.name} is ready to run")


@pipeline.command(
    examples=[
        "floodmark pipeline status -o json",
        "floodmark pipeline status --checkpoints s3a://my-bucket/checkpoints",
    ]
)
@checkpoints_option
@conf_option
@output_option
def status(checkpoints: str, spark_settings: tuple[str, ...], output: str) -> None:
    """Show whether each pipeline runs, its last batch, speed, lag and last error."""
    with told(), opened(checkpoints, spark_settings) as folder:
        rows = [row for item in find_checkpoints(folder) for row in run_client(status_of(item))]
    if output == JSON:
        print_json([row.as_document() for row in rows])
        return
    if not rows:
        click.echo(f"no pipeline has run here yet (looked in {checkpoints})")
        return
    print_table(_STATUS_COLUMNS, [_status_row(row) for row in rows])
    for name, error in {row.pipeline: row.error for row in rows if row.error}.items():
        click.echo(f"{name} failed: {error}")


_STATUS_COLUMNS = [
    "PIPELINE",
    "OUTPUT",
    "STATE",
    "SINCE",
    "LAST BATCH",
    "FINISHED",
    "ROWS/S IN",
    "ROWS/S OUT",
    "LAG",
    "LAG (S)",
    "GROUP",
]


def _status_row(row: OutputStatus) -> list[object]:
    return [
        row.pipeline,
        row.output,
        row.state,
        row.since,
        row.batch,
        row.finished_at,
        row.rows_in_per_second,
        row.rows_out_per_second,
        row.lag,
        row.lag_seconds,
        row.group,
    ]


@pipeline.command(examples=["floodmark pipeline reset words --yes"])
@click.argument("name")
@checkpoints_option
@checkpoint_option
@conf_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def reset(
    name: str, checkpoints: str, checkpoint: str | None, spark_settings: tuple[str, ...], yes: bool
) -> None:
    """Delete a pipeline's position and state, so that it starts over. Keeps its outputs."""
    with told(), opened(checkpoint or checkpoints, spark_settings) as folder:
        found = read_checkpoint(folder if checkpoint else folder / name)
        if found is None or found.pipeline != name:
            others = [] if checkpoint else find_checkpoints(folder)
            known = ", ".join(item.pipeline for item in others)
            raise CliError(
                f"pipeline {name} has no checkpoint in {folder}",
                hint=f"use one of {known}" if known else "name another folder with --checkpoints",
            )
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
