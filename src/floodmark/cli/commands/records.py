"""`floodmark records delete`: advances the log start of partitions, like kafka-delete-records."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from floodmark.cli.commands.deletion_file import read_deletions
from floodmark.cli.errors import CliError, fail_with, no_such_partition
from floodmark.cli.help import Group
from floodmark.cli.options import client_options, names_option, output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import (
    admin_client,
    check_partitions,
    existing_topics,
    failure,
    run_client,
)
from floodmark.cli.target import Target
from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec
from floodmark.wire.errors import ErrorCode

END = -1
"""Stands for the high watermark in Kafka's request and JSON file."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's offsets before the deletion, and the offset to delete up to."""

    name: TopicPartition
    start: int
    end: int
    before: int

    @property
    def count(self) -> int:
        return max(0, (self.end if self.before == END else self.before) - self.start)


@click.group(cls=Group, examples=["floodmark records delete orders --before 1000"])
def records() -> None:
    """Delete records up to an offset."""


@records.command(
    examples=[
        "floodmark records delete orders --before 1000",
        "floodmark records delete orders -p 0 -p 2 --before end --yes",
        "floodmark records delete --offset-json-file offsets.json --yes -o json",
    ]
)
@names_option("TOPIC", "--topic", separator=",")
@click.option(
    "--partition", "-p", "partitions", type=int, multiple=True, help="Only this partition."
)
@click.option("--before", metavar="OFFSET", help="Delete records below this offset; `end` for all.")
@click.option(
    "--offset-json-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A kafka-delete-records file; an offset of -1 means all.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@output_option
@client_options
def delete(
    names: list[str],
    partitions: tuple[int, ...],
    before: str | None,
    offset_json_file: str | None,
    yes: bool,
    output: str,
    target: Target,
) -> None:
    """Permanently delete the records of partitions below an offset.

    Remaining records keep their offsets. The partition then starts at the given offset.

    File format: {"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}], "version": 1}
    """
    wanted: dict[TopicPartition, int] | None = None
    if offset_json_file is not None:
        if names or partitions or before is not None:
            raise click.UsageError("--offset-json-file cannot be combined with other selections")
        wanted = read_deletions(Path(offset_json_file))
    elif not names or before is None:
        raise click.UsageError(
            "name what to delete: TOPIC and --before OFFSET, or --offset-json-file FILE"
        )
    offset = END if before is None else _parse_offset(before)

    async def look() -> list[Partition]:
        async with admin_client(target) as admin:
            chosen = wanted or dict.fromkeys(await _chosen(admin, names, partitions), offset)
            return await _partitions(admin, chosen)

    plan = run_client(look())
    if not yes:
        _ask(plan)

    async def work() -> dict[TopicPartition, int | KafkaError]:
        async with admin_client(target) as admin:
            return await admin.delete_records({item.name: item.before for item in plan})

    _report(plan, run_client(work()), output)


def _parse_offset(text: str) -> int:
    if text == "end":
        return END
    if not text.isdecimal():
        raise click.UsageError(f"--before {text}: give an offset, or `end` for all records")
    return int(text)


async def _chosen(
    admin: Admin, names: list[str], partitions: tuple[int, ...]
) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic in await existing_topics(admin, names):
        for index in partitions or sorted(topic.partitions):
            partition = TopicPartition(topic.name, index)
            if index not in topic.partitions:
                raise no_such_partition(partition, len(topic.partitions))
            found.append(partition)
    return found


async def _partitions(admin: Admin, wanted: Mapping[TopicPartition, int]) -> list[Partition]:
    await check_partitions(admin, wanted)
    starts = await _offsets(admin, wanted, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, wanted, OffsetSpec.LATEST)
    return [Partition(p, starts[p], ends[p], offset) for p, offset in wanted.items()]


async def _offsets(
    admin: Admin, partitions: Mapping[TopicPartition, int], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for partition, answer in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items():
        if isinstance(answer, KafkaError):
            raise failure(answer, f"the offsets of {partition} could not be read")
        found[partition] = answer.offset
    return found


def _ask(plan: list[Partition]) -> None:
    if not sys.stdin.isatty():
        raise CliError(
            "nothing was deleted",
            why="stdin is not a terminal, so it cannot ask for confirmation",
            hint="add --yes",
        )
    for item in plan:
        click.echo(f"{item.name}: {item.count} of {item.end - item.start} records", err=True)
    if not click.confirm("Delete them permanently?", err=True):
        raise CliError("nothing was deleted")


def _report(
    plan: list[Partition], outcomes: Mapping[TopicPartition, int | KafkaError], output: str
) -> None:
    documents = []
    failures: list[CliError] = []
    for item in plan:
        outcome = outcomes[item.name]
        refused = isinstance(outcome, KafkaError)
        start = item.start if isinstance(outcome, KafkaError) else outcome
        documents.append(
            {
                "topic": item.name.topic,
                "partition": item.name.partition,
                "start": start,
                "end": item.end,
                "deleted": 0 if refused else max(0, start - item.start),
                "error": outcome.code.name if isinstance(outcome, KafkaError) else None,
            }
        )
        if isinstance(outcome, KafkaError):
            failures.append(_refused(item, outcome))
    if output == JSON:
        print_json(documents)
    else:
        columns = [key.upper() for key in documents[0]]
        print_table(columns, [list(document.values()) for document in documents])
    fail_with(failures)


def _refused(item: Partition, error: KafkaError) -> CliError:
    what = f"the records of {item.name} were not deleted"
    if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return CliError(
            what,
            why=f"{item.name} ends at offset {item.end}, --before is {item.before}",
            hint="use an offset up to that one, or --before end",
        )
    if error.code is ErrorCode.POLICY_VIOLATION:
        return CliError(
            what,
            why=f"the cleanup.policy of {item.name.topic} does not contain delete",
            hint="send a tombstone for each key instead, or add delete to its cleanup.policy",
        )
    return failure(error, what)
