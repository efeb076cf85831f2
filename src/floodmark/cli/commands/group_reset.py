"""`floodmark group reset`: sets the committed offsets of groups that have no members.

The counterpart of kafka-consumer-groups --reset-offsets.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from floodmark.cli.commands.group_offsets import known_offsets
from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.options import names_option, output_option, parse_topics, require
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, existing_topics, failure, run_client
from floodmark.cli.times import parse_datetime_ms
from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import SHOWN_BY_SPARK
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec
from floodmark.clock import SystemClock
from floodmark.wire.errors import ErrorCode

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_FILE_HINT = "`floodmark group reset GROUP --all-topics --to-current --export` writes a valid file"
_UNIT_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


@dataclass(frozen=True, slots=True)
class Target:
    """Where to move the offsets. Exactly one field is set."""

    spec: int | None = None
    """A timestamp in ms or an OffsetSpec."""
    offset: int | None = None
    shift: int | None = None
    current: bool = False
    rows: Mapping[str | None, Mapping[TopicPartition, int]] | None = None
    """Offsets by group, from a file. The key None applies to every group."""


Scope = Mapping[str, Sequence[int] | None] | None
"""Partitions by topic. A None value means all its partitions; a None scope, all committed ones."""


@dataclass(frozen=True, slots=True)
class Move:
    group: str
    partition: TopicPartition
    current: int | None
    new: int


@click.command(
    cls=Command,
    examples=[
        "floodmark group reset billing --topic orders --to-earliest",
        "floodmark group reset billing --all-topics --to-datetime 2026-01-31T12:00:00 --execute",
        "floodmark group reset billing --topic orders:0 --shift-by -10 --execute",
        "floodmark group reset billing --all-topics --to-current --export",
    ],
)
@names_option("GROUP", "--group")
@click.option("--all-groups", is_flag=True, help="Reset every group.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="Reset this topic.")
@click.option("--all-topics", is_flag=True, help="Reset all committed topics.")
@click.option("--to-earliest", is_flag=True, help="Move to the first record.")
@click.option("--to-latest", is_flag=True, help="Move past the last record.")
@click.option(
    "--to-current",
    is_flag=True,
    help="Keep committed offsets; use the log end where there is none.",
)
@click.option("--to-offset", type=click.IntRange(min=0), help="Move to this offset.")
@click.option("--shift-by", type=int, help="Move forward N records, or back if negative.")
@click.option(
    "--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="Move to a time; UTC by default."
)
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Move to this long ago.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Take offsets from a CSV file: [group,]topic,partition,offset.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change (the default).")
@click.option("--execute", is_flag=True, help="Apply the change.")
@click.option("--export", is_flag=True, help="Print CSV for --from-file.")
@output_option
@admin_option
def reset(
    names: list[str],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    output: str,
    admin: Admin,
    **where: Any,
) -> None:
    """Set the committed offsets of groups that have no members.

    Changes nothing without --execute.
    """
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute are mutually exclusive")
    target = parse_target(where)
    scope = _parse_scope(topics, target, all_topics=all_topics)
    if all_groups and names:
        raise click.UsageError("name groups or use --all-groups, not both")
    if not all_groups:
        require(names, "group")

    async def work() -> list[Move]:
        async with admin:
            groups = names or [listing.group_id for listing in await admin.list_groups()]
            await _refuse_active(admin, groups)
            moves = [m for name in groups for m in await plan(admin, name, target, scope)]
            if execute:
                for name in groups:
                    await _apply(admin, name, [m for m in moves if m.group == name])
            return moves

    moves = run_client(work())
    _print_moves(moves, output, export=export, with_group=all_groups or len(names) > 1)
    if not execute:
        click.echo("nothing was changed: add --execute to apply it", err=True)


# --- parsing the request ---


def parse_target(where: Mapping[str, Any]) -> Target:
    given = [name for name, value in where.items() if value is not None and value is not False]
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in where)
        raise click.UsageError(f"choose a position with exactly one of {options}")
    if where["to_earliest"]:
        return Target(spec=OffsetSpec.EARLIEST)
    if where["to_latest"]:
        return Target(spec=OffsetSpec.LATEST)
    if where["to_datetime"] is not None:
        return Target(spec=_moment_ms(where["to_datetime"]))
    if where["by_duration"] is not None:
        now_ms = SystemClock().now_ms()
        return Target(spec=max(0, now_ms - parse_duration_ms(where["by_duration"])))
    if where["from_file"] is not None:
        return Target(rows=_read_file(Path(where["from_file"])))
    return Target(offset=where["to_offset"], shift=where["shift_by"], current=where["to_current"])


def _moment_ms(text: str) -> int:
    try:
        return parse_datetime_ms(text)
    except ValueError:
        raise click.UsageError(
            f"'{text}' is not a time: write 2026-01-31T12:00:00.000, with Z or +01:00 for a zone"
        ) from None


def parse_duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise click.UsageError(
            f"'{text}' is not a duration: write PnDTnHnMnS, such as P1D or PT1H30M"
        )
    return int(sum(float(n) * _UNIT_MS[unit] for unit, n in found.groupdict().items() if n))


def _read_file(path: Path) -> dict[str | None, dict[TopicPartition, int]]:
    try:
        return read_rows(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise CliError(
            f"{path} is not a valid offset file",
            why=f"it is not UTF-8 CSV: {error}",
            hint=_FILE_HINT,
        ) from error


def read_rows(text: str) -> dict[str | None, dict[TopicPartition, int]]:
    rows: dict[str | None, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            *group, topic, index, offset = (cell.strip() for cell in row)
            if len(group) > 1:
                raise ValueError
            name = group[0] if group else None
            rows.setdefault(name, {})[TopicPartition(topic, int(index))] = int(offset)
        except ValueError:
            raise CliError(
                f"line {number} of the file is invalid",
                why=f"'{','.join(row)}' is not [group,]topic,partition,offset",
                hint=_FILE_HINT,
            ) from None
    return rows


def _parse_scope(topics: tuple[str, ...], target: Target, *, all_topics: bool) -> Scope:
    if target.rows is not None:
        if topics or all_topics:
            raise click.UsageError(
                "--from-file already names the topics: drop --topic and --all-topics"
            )
        return None
    if bool(topics) == all_topics:
        raise click.UsageError("name the topics: --topic TOPIC[:0,1] or --all-topics")
    return parse_topics(topics) if topics else None


# --- planning the moves ---


async def plan(admin: Admin, group: str, target: Target, scope: Scope) -> list[Move]:
    """The new offset of each partition. Changes nothing."""
    found = await admin.list_group_offsets(group)
    _refuse_display(group, [o.metadata for o in found.values()])
    committed = {p: o.offset for p, o in found.items()}
    if target.rows is not None:
        wanted = {**target.rows.get(None, {}), **target.rows.get(group, {})}
        partitions = sorted(wanted)
    else:
        partitions = await _partitions_in(admin, scope, committed)
        wanted = await _wanted(admin, target, partitions, committed)
    starts = await known_offsets(admin, partitions, OffsetSpec.EARLIEST)
    ends = await known_offsets(admin, partitions, OffsetSpec.LATEST)
    moves: list[Move] = []
    for partition in partitions:
        if partition not in ends:
            raise CliError(
                f"{partition} could not be reset",
                why="the partition does not exist or currently has no leader",
                hint="`floodmark topic describe` shows partitions and leaders",
            )
        new = _clamped(partition, wanted[partition], starts[partition], ends[partition])
        moves.append(Move(group, partition, committed.get(partition), new))
    return moves


def _refuse_display(group: str, metadata: Sequence[str]) -> None:
    """A Spark query only shows its position in a group; its checkpoint determines it."""
    if SHOWN_BY_SPARK in metadata:
        output = group.rpartition(".")[2]
        raise CliError(
            f"group {group} only shows the position of a Spark query, so a reset would move "
            "nothing",
            why="the query continues from its checkpoint",
            hint=f"`floodmark pipeline replay {output} --from earliest` moves an output of a "
            "pipeline; another query needs a new checkpoint",
        )


async def _partitions_in(
    admin: Admin, scope: Scope, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    if scope is None:
        return sorted(committed)
    found: list[TopicPartition] = []
    for topic in await existing_topics(admin, scope):
        indexes = scope[topic.name]
        found += [
            TopicPartition(topic.name, i)
            for i in (sorted(topic.partitions) if indexes is None else indexes)
        ]
    return found


async def _wanted(
    admin: Admin,
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if target.offset is not None:
        return dict.fromkeys(partitions, target.offset)
    if target.shift is not None:
        nowhere = [str(p) for p in partitions if p not in committed]
        if nowhere:
            raise CliError(
                "the offsets could not be shifted",
                why=f"nothing is committed for {', '.join(nowhere)}",
                hint="use --to-offset, --to-earliest or --to-latest there",
            )
        return {p: committed[p] + target.shift for p in partitions}
    spec = OffsetSpec.LATEST if target.spec is None else target.spec
    ends = await known_offsets(admin, partitions, OffsetSpec.LATEST)
    found = ends | await known_offsets(admin, partitions, spec)
    # The -1 never shows: the caller refuses missing partitions.
    offsets = {p: found.get(p, -1) for p in partitions}
    return offsets | dict(committed) if target.current else offsets


def _clamped(partition: TopicPartition, offset: int, start: int, end: int) -> int:
    """The nearest offset in the log. Warns when it differs."""
    nearest = min(max(offset, start), end)
    if nearest != offset:
        click.echo(
            f"warning: {partition} holds {start} to {end}: using {nearest} instead of {offset}",
            err=True,
        )
    return nearest


# --- applying and reporting ---


async def _refuse_active(admin: Admin, groups: Sequence[str]) -> None:
    for name, answer in (await admin.describe_groups(groups)).items():
        if isinstance(answer, KafkaError):
            # Offsets may be set for a group that does not exist yet.
            if answer.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise failure(answer, f"group {name} could not be described")
        elif not answer.is_empty:
            raise CliError(
                f"the offsets of group {name} could not be reset",
                why=f"it has {len(answer.members)} members (state {answer.state})",
                hint=f"stop them first: `floodmark group members {name}` shows who they are",
            )


async def _apply(admin: Admin, group: str, moves: Sequence[Move]) -> None:
    if not moves:
        return
    refused = await admin.alter_group_offsets(group, {m.partition: m.new for m in moves})
    for partition, error in refused.items():
        raise failure(error, f"the offset of {partition} in group {group} was not reset")


def _print_moves(moves: Sequence[Move], output: str, *, export: bool, with_group: bool) -> None:
    if export:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for move in moves:
            row = [*move.partition, move.new]
            writer.writerow([move.group, *row] if with_group else row)
        click.echo(text.getvalue(), nl=False)
    elif output == JSON:
        print_json(
            [
                {
                    "group": move.group,
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "committed": move.current,
                    "new_offset": move.new,
                }
                for move in moves
            ]
        )
    else:
        print_table(
            ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "NEW-OFFSET"),
            [(move.group, *move.partition, move.current, move.new) for move in moves],
        )
