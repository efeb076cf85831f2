"""`floodmark partition ...`: move partitions to other brokers, elect their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from floodmark.cli.errors import CliError, fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import output_option, parse_topics
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.reassignment_plans import (
    Plan,
    parse_brokers,
    parse_file,
    parse_moves,
    parse_partition,
    spread,
)
from floodmark.cli.session import admin_option, existing_topics, failure, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.reassignments import PartitionReassignment
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ElectionType

POLL_S = 0.2


@click.group(
    cls=Group,
    examples=[
        "floodmark partition reassign orders:0=2,3",
        "floodmark partition elect orders",
    ],
)
def partition() -> None:
    """Move partitions to other brokers, and elect their leaders."""


@partition.command(
    examples=[
        "floodmark partition reassign orders:0=2,3 orders:1=3,1 --wait",
        "floodmark partition reassign --topic orders --brokers 1,2,4",
        "floodmark partition reassign --file plan.json",
        "floodmark partition reassign orders:0 --cancel",
        "floodmark partition reassign --list --json",
    ]
)
@click.argument("moves", metavar="[TOPIC:PARTITION=BROKER,BROKER]...", nargs=-1)
@click.option("--topic", "topics", multiple=True, help="Move all partitions of this topic.")
@click.option("--brokers", help="Brokers for --topic, such as 1,2,3.")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A plan in kafka-reassign-partitions format.",
)
@click.option("--cancel", is_flag=True, help="Cancel moves; default: all.")
@click.option("--list", "only_list", is_flag=True, help="Show the moves in progress.")
@click.option("--wait", is_flag=True, help="Wait until the moves are complete.")
@output_option
@admin_option
def reassign(
    moves: tuple[str, ...],
    topics: tuple[str, ...],
    brokers: str | None,
    file: Path | None,
    cancel: bool,
    only_list: bool,
    wait: bool,
    output: str,
    admin: Admin,
) -> None:
    """Move partitions to other brokers. The first broker is the preferred leader.

    New replicas catch up before old ones are removed, so clients can read and write throughout.
    """
    if bool(topics) != (brokers is not None):
        raise click.UsageError("--topic and --brokers must be used together")

    async def work() -> dict[TopicPartition, KafkaError | None]:
        async with admin:
            if only_list:
                _print_moves(output, await admin.list_partition_reassignments())
                return {}
            if cancel:
                return await _cancel(admin, moves)
            plan = await _plan(admin, moves, topics, brokers, file)
            outcomes = await admin.alter_partition_reassignments(plan)
            if wait:
                await _until_complete(admin, [p for p, error in outcomes.items() if error is None])
            return outcomes

    outcomes = run_client(work())
    if not only_list:
        _report_moves(output, outcomes, cancelled=cancel, complete=wait)


def _report_moves(
    output: str,
    outcomes: Mapping[TopicPartition, KafkaError | None],
    *,
    cancelled: bool,
    complete: bool,
) -> None:
    if not cancelled:
        verb = "has moved" if complete else "is moving"
        _report(output, outcomes, done=verb, failed="was not moved")
        return
    if not outcomes and output != JSON:
        click.echo("no partitions are moving", err=True)
    _report(
        output,
        outcomes,
        subject="the move of partition",
        done="is cancelled",
        failed="was not cancelled",
    )


async def _plan(
    admin: Admin,
    moves: Sequence[str],
    topics: Sequence[str],
    brokers: str | None,
    file: Path | None,
) -> Plan:
    plan = parse_moves(moves)
    if file is not None:
        plan |= _read(file)
    if brokers is not None:
        for topic in await existing_topics(admin, topics):
            plan |= spread(topic, parse_brokers(brokers))
    if not plan:
        raise click.UsageError("name what to move: TOPIC:PARTITION=BROKERS, --topic or --file")
    return plan


def _read(file: Path) -> Plan:
    try:
        return parse_file(file.read_text())
    except OSError as error:
        raise CliError(f"{file} could not be read", why=error.strerror) from error
    except ValueError as error:
        raise CliError(f"{file} could not be read", why=str(error)) from error


async def _cancel(admin: Admin, named: Sequence[str]) -> dict[TopicPartition, KafkaError | None]:
    wanted = [parse_partition(text.partition("=")[0]) for text in named]
    if not wanted:
        wanted = list(await admin.list_partition_reassignments())
    return await admin.alter_partition_reassignments(dict.fromkeys(wanted)) if wanted else {}


async def _until_complete(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    while await admin.list_partition_reassignments(partitions):  # noqa: ASYNC110 - over the network
        await asyncio.sleep(POLL_S)


def _print_moves(output: str, moves: Mapping[TopicPartition, PartitionReassignment]) -> None:
    rows: list[Document] = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "replicas": list(move.replicas),
            "adding": list(move.adding),
            "removing": list(move.removing),
        }
        for one, move in sorted(moves.items())
    ]
    if output == JSON:
        print_json(rows)
    elif rows:
        columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
        print_table(columns, [list(row.values()) for row in rows])
    else:
        click.echo("no partitions are moving", err=True)


@partition.command(
    examples=[
        "floodmark partition elect",
        "floodmark partition elect orders payments:0,2",
        "floodmark partition elect orders:0 --unclean",
    ]
)
@click.argument("partitions", metavar="[TOPIC[:PARTITION,PARTITION]]...", nargs=-1)
@click.option(
    "--unclean",
    is_flag=True,
    help="Let any live replica lead a leaderless partition. Records may be lost.",
)
@output_option
@admin_option
def elect(partitions: tuple[str, ...], unclean: bool, output: str, admin: Admin) -> None:
    """Elect the preferred leaders of partitions. Default: all partitions."""
    wanted = parse_topics(partitions)
    if unclean and not wanted:
        raise click.UsageError("name the partitions that may lose records")
    election_type = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED

    async def work() -> dict[TopicPartition, KafkaError | None]:
        async with admin:
            named = None
            if wanted:
                named = [
                    TopicPartition(topic.name, index)
                    for topic in await existing_topics(admin, wanted)
                    for index in wanted[topic.name] or sorted(topic.partitions)
                ]
            return await admin.elect_leaders(named, election_type=election_type)

    outcomes = run_client(work())
    # Like Kafka's tool, treat an unchanged leader as success.
    needed = {
        one: error
        for one, error in outcomes.items()
        if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if not needed and output != JSON:
        wanted_leader = "a" if unclean else "its preferred"
        click.echo(f"every partition already has {wanted_leader} leader", err=True)
    _report(output, needed, done="has a new leader", failed="has no new leader")


def _report(
    output: str,
    outcomes: Mapping[TopicPartition, KafkaError | None],
    *,
    done: str,
    failed: str,
    subject: str = "partition",
) -> None:
    errors: list[CliError] = []
    rows: list[Document] = []
    for one, error in sorted(outcomes.items()):
        name = error.code.name if error else None
        rows.append({"topic": one.topic, "partition": one.partition, "error": name})
        if error is not None:
            errors.append(failure(error, f"{subject} {one} {failed}"))
        elif output != JSON:
            click.echo(f"{subject} {one} {done}")
    if output == JSON:
        print_json(rows)
    fail_with(errors)
