"""`floodmark pipeline replay|drop`: moves or removes one output of a pipeline."""

from __future__ import annotations

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.pipeline_kit import (
    checkpoint_option,
    checkpoints_option,
    conf_option,
    opened,
    told,
)
from floodmark.cli.session import run_client
from floodmark.cli.start_at import Origin, StartAt, parse_offset, parse_time
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.offsets import OffsetSpec
from floodmark.clock import SystemClock
from floodmark.pipeline.authoring.checkpoints import (
    Checkpoint,
    find_checkpoints,
    held,
    read_checkpoint,
    remove_output,
)
from floodmark.pipeline.authoring.replay_positions import ReplayStart, check_known, resolve_start
from floodmark.pipeline.authoring.replays import (
    read_record,
    read_records,
    record_drop,
    record_replay,
)
from floodmark.pipeline.authoring.source_clusters import by_servers
from floodmark.pipeline.authoring.status import delete_groups
from floodmark.pipeline.authoring.tables import may_keep_batches
from floodmark.pipeline.datasource.offsets import Positions, from_document, parse_positions
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import AnyPath

_name_option = click.option("--pipeline", "name", help="Its pipeline, if several have it.")
_yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@click.command(
    cls=Command,
    examples=[
        "floodmark pipeline replay counts --from earliest --dry-run",
        "floodmark pipeline replay counts --from 2h --yes",
        "floodmark pipeline replay counts --from 2026-01-31T12:00 --yes",
        """floodmark pipeline replay counts --from '{"words-words": {"0": 23}}' --yes""",
    ],
)
@click.argument("output", metavar="OUTPUT")
@click.option(
    "--from",
    "start",
    required=True,
    metavar="START",
    help="earliest, latest, a time, an age such as 2h, an offset, or JSON of offsets.",
)
@_name_option
@checkpoints_option
@checkpoint_option
@conf_option
@click.option("--dry-run", is_flag=True, help="Show what would be read again. Change nothing.")
@_yes_option
def replay(
    output: str,
    start: str,
    name: str | None,
    checkpoints: str,
    checkpoint: str | None,
    spark_settings: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Let one output read its topics again from a time or offset, with empty state.

    Stop the pipeline first. The target keeps its rows: those that are read again are also written
    again, unless the target replaces rows by key.
    """
    wanted = parse_start(start)
    with told(), opened(checkpoint or checkpoints, spark_settings) as folder:
        found = _find(output, name, folder, is_one=checkpoint is not None)
        with held(found):
            current = _position(found, output)
            positions = run_client(_resolve(found, output, current, wanted))
            _describe(output, current, positions)
            if dry_run:
                click.echo("nothing was changed", err=True)
                return
            if not yes:
                click.confirm(f"Replay {output}? Its state will be deleted.", abort=True)
            table = read_record(found.folder, output).table
            # In this order: wherever it ends, the same command completes it.
            _delete_groups(found, output)
            record_replay(found.folder, output, positions)
            remove_output(found, output)
    click.echo(f"{output} will start there on the next run of {found.pipeline}")
    if table is not None and may_keep_batches(table):
        click.echo(
            f"before that, move {table} away: Spark would drop batches whose numbers the table "
            "already has",
            err=True,
        )


@click.command(cls=Command, examples=["floodmark pipeline drop counts --yes"])
@click.argument("output", metavar="OUTPUT")
@_name_option
@checkpoints_option
@checkpoint_option
@conf_option
@_yes_option
def drop(
    output: str,
    name: str | None,
    checkpoints: str,
    checkpoint: str | None,
    spark_settings: tuple[str, ...],
    yes: bool,
) -> None:
    """Delete the position and state of one output, such as one that was removed from the file.

    Keeps what it has written. If the file still declares it, it starts over on the next run.
    """
    with told(), opened(checkpoint or checkpoints, spark_settings) as folder:
        found = _find(output, name, folder, is_one=checkpoint is not None)
        if not yes:
            click.confirm(f"Delete position and state of {output}?", abort=True)
        with held(found):
            _delete_groups(found, output)
            record_drop(found.folder, output)
            remove_output(found, output)
    click.echo(f"{output} of {found.pipeline} is dropped")


def parse_start(text: str) -> ReplayStart:
    if text.lstrip().startswith("{"):
        return ReplayStart(offsets=parse_positions("--from", text))
    try:
        start = parse_offset(text)
    except click.UsageError:
        start = parse_time(text, SystemClock().now_ms())
    return _replay_start(start, text)


def _replay_start(start: StartAt, text: str) -> ReplayStart:
    if start.origin is Origin.OFFSET:
        return ReplayStart(offset=start.number)
    if start.origin is Origin.TIME:
        return ReplayStart(spec=start.number)
    if start.origin is Origin.BEFORE_END:
        raise click.UsageError(f"'{text}' is not a start: name an offset, a time or an age")
    earliest = start.origin is Origin.BEGINNING
    return ReplayStart(spec=OffsetSpec.EARLIEST if earliest else OffsetSpec.LATEST)


def _find(output: str, name: str | None, folder: AnyPath, *, is_one: bool) -> Checkpoint:
    """`folder` is the checkpoint of one pipeline, or holds those of several."""
    if is_one:
        one = read_checkpoint(folder)
        candidates = [] if one is None else [one]
    else:
        candidates = find_checkpoints(folder)
    known = [item for item in candidates if name in (None, item.pipeline)]
    found = [item for item in known if output in _outputs(item)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(item.pipeline for item in found)
        raise CliError(f"several pipelines have an output {output}", hint=f"--pipeline: {names}")
    outputs = "; ".join(f"{', '.join(_outputs(item))} (of {item.pipeline})" for item in candidates)
    raise CliError(
        f"no pipeline has run an output {output} in {folder}",
        hint=f"use one of {outputs}" if outputs else "name another folder with --checkpoints",
    )


def _outputs(found: Checkpoint) -> list[str]:
    """Also those that wait for a replay, which have no checkpoint of Spark's."""
    return sorted({*found.outputs(), *read_records(found.folder)})


def _position(found: Checkpoint, output: str) -> Positions:
    last = found.last_batch(output)
    waiting = found.replayed_from(output) or {}
    positions = waiting if last is None else from_document(last[1])
    if not positions:
        raise PipelineError(
            f"{output} has not completed a batch of a topic yet, so it has no position to move: "
            f"`floodmark pipeline drop {output}` lets it start over"
        )
    return positions


async def _resolve(
    found: Checkpoint, output: str, current: Positions, start: ReplayStart
) -> Positions:
    """Asks the brokers of each source, which may have some of their own."""
    shares = by_servers(found, output, current)
    try:
        if shares is None:
            raise PipelineError(
                f"{output} reads topics of the same name from two clusters, so its offsets cannot "
                "be told apart: reset the pipeline instead"
            )
        check_known(current, start)
        positions: Positions = {}
        for servers, share in shares.items():
            async with Cluster(servers) as cluster:
                positions |= await resolve_start(cluster, share, start)
        return positions
    except PipelineError as error:
        raise CliError(str(error)) from error


def _describe(output: str, current: Positions, positions: Positions) -> None:
    again = sum(max(0, current[p] - positions[p]) for p in current)
    skipped = sum(max(0, positions[p] - current[p]) for p in current)
    click.echo(f"{output}: {again} offsets will be read again, {skipped} skipped")


def _delete_groups(found: Checkpoint, output: str) -> None:
    try:
        run_client(delete_groups(found, output))
    except CliError as error:
        # They only serve as a display, and new marks have another name.
        click.echo(f"the groups of {output} were not deleted: {error.message}", err=True)
