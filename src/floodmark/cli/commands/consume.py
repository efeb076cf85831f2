"""`floodmark consume TOPIC`: print records from any position, once or continuously."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

from floodmark.cli.console_properties import console_formatter
from floodmark.cli.format import FORMAT_HELP, Formatter, compile_format
from floodmark.cli.help import Command
from floodmark.cli.options import client_options, pairs
from floodmark.cli.output import JSON
from floodmark.cli.reading import ReadPlan, print_records
from floodmark.cli.record_json import record_to_json
from floodmark.cli.session import existing_topics, run_client
from floodmark.cli.start_at import Origin, StartAt, parse_offset, parse_time
from floodmark.cli.target import Target
from floodmark.client.admin.admin import Admin
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.settings import ConsumerSettings
from floodmark.clock import SystemClock
from floodmark.vocabulary import NO_LEADER


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The command's options, under their own names."""

    topic_arguments: tuple[str, ...]
    topic_option: tuple[str, ...]
    from_beginning: bool
    offset: str | None
    from_time: str | None
    last: int | None
    follow: bool
    partitions: tuple[int, ...]
    group: str | None
    max_messages: int | None
    timeout_ms: int | None
    format_text: str | None
    formatter_properties: tuple[str, ...]
    output: str
    isolation_level: str | None
    properties: tuple[str, ...]
    target: Target

    def topics(self) -> list[str]:
        topics = [*self.topic_arguments, *self.topic_option]
        if not topics:
            raise click.UsageError("name a topic")
        return topics

    def start(self) -> StartAt | None:
        starts: list[StartAt] = []
        if self.from_beginning:
            starts.append(StartAt(Origin.BEGINNING))
        if self.offset is not None:
            starts.append(parse_offset(self.offset))
        if self.from_time is not None:
            starts.append(parse_time(self.from_time, SystemClock().now_ms()))
        if self.last is not None:
            starts.append(StartAt(Origin.BEFORE_END, self.last))
        if len(starts) > 1:
            raise click.UsageError(
                "--from-beginning, --offset, --from-time and --last are mutually exclusive"
            )
        return starts[0] if starts else None

    def plan(self) -> ReadPlan:
        start = self.start()
        in_group = self.group is not None
        if in_group and (self.partitions or (start is not None and not self.from_beginning)):
            raise click.UsageError(
                "a group chooses its own partitions and positions: of these options, only "
                "--from-beginning works with --group"
            )
        return ReadPlan(
            self.topics(),
            None if in_group else start or StartAt(Origin.END),
            partitions=self.partitions,
            follow=self.follow or start is None or in_group,
            max_records=self.max_messages,
            idle_timeout_ms=self.timeout_ms,
            last=self.last,
        )

    def settings(self) -> tuple[str, ConsumerSettings]:
        given = pairs(self.properties)
        if self.isolation_level is not None:
            given["isolation.level"] = self.isolation_level
        if self.group is not None:
            given["group.id"] = self.group
            if self.from_beginning:
                given["auto.offset.reset"] = "earliest"
        return self.target.resolve(ConsumerSettings, given)

    def formatter(self) -> Formatter:
        properties = self.formatter_properties
        ways = (self.output == JSON, self.format_text is not None, bool(properties))
        if sum(ways) > 1:
            raise click.UsageError("--output json, --format and --property are mutually exclusive")
        if properties:
            return console_formatter(properties)
        if self.output == JSON:
            return record_to_json
        return compile_format("%s\\n" if self.format_text is None else self.format_text)


@click.command(
    cls=Command,
    examples=[
        "floodmark consume orders",
        "floodmark consume orders --from-beginning -n 10",
        "floodmark consume orders --last 5 --format '%t %p %o: %k %s\\n'",
        "floodmark consume orders --from-time 10m -o json --follow",
        "floodmark consume orders --offset 42 -p 0",
        "floodmark consume orders --group billing --from-beginning",
    ],
)
@click.argument("topic_arguments", metavar="TOPIC...", nargs=-1)
@click.option("--topic", "topic_option", multiple=True, help="Topic name.")
@click.option("--from-beginning", is_flag=True, help="Start at the first record.")
@click.option("--offset", help="Offset, -N (N before the end), beginning or end.")
@click.option(
    "--from-time",
    help="2026-01-31T12:00 (UTC by default), milliseconds since 1970, or an age: 10m, 2h, 1d.",
)
@click.option("--last", type=click.IntRange(0), help="Print the last N records by time.")
@click.option("--follow", "-f", is_flag=True, help="Keep reading at the end.")
@click.option("--partition", "-p", "partitions", type=int, multiple=True, help="Partition to read.")
@click.option("--group", "-g", help="Join this group, resume from its offsets and commit.")
@click.option("--max-messages", "-n", type=click.IntRange(1), help="Stop after N records.")
@click.option("--timeout-ms", type=int, help="Stop after this long without records.")
@click.option("--format", "-F", "format_text", help=FORMAT_HELP)
@click.option(
    "--property",
    "--formatter-property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Kafka console consumer property, such as print.key=true or key.separator=:.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", JSON]),
    default="text",
    show_default=True,
    help="Print only values, or one JSON object per record.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default=None,
    help="Whether to include records of open and aborted transactions.",
)
@click.option(
    "--consumer-property",
    "--command-property",
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Consumer setting, such as fetch.max.bytes=1000000.",
)
@client_options
def consume(**given: Any) -> None:
    """Print the records of topics.

    With a start position (--from-beginning, --offset, --from-time, --last) it prints the existing
    records and stops; add --follow to keep reading. Without one, it follows from the end. With
    --group, it shares the topics with the group's other members and keeps reading; --from-beginning
    then applies only to a new group.
    """
    options = ConsumeOptions(**given)
    plan = options.plan()
    formatter = options.formatter()
    address, settings = options.settings()
    run_client(_consume(address, settings, plan, formatter))


async def _consume(
    bootstrap_server: str, settings: ConsumerSettings, plan: ReadPlan, formatter: Formatter
) -> None:
    async with Consumer(bootstrap_server, settings) as consumer:
        await check_topics(consumer, plan)
        if sys.stdout.isatty() and plan.follow:
            plan.tell(f"waiting for records from {', '.join(plan.topics)}; press Ctrl-C to stop")
        count = await print_records(consumer, plan, formatter, write_now)
        if sys.stdout.isatty() and count == 0:
            plan.tell(f"no records in {', '.join(plan.topics)}")


async def check_topics(consumer: Consumer, plan: ReadPlan) -> None:
    """Fails at once if a topic is missing, and warns about partitions that have no leader."""
    for topic in await existing_topics(Admin(consumer.cluster), plan.topics):
        offline = [
            str(index)
            for index, partition in sorted(topic.partitions.items())
            if partition.leader == NO_LEADER and (not plan.partitions or index in plan.partitions)
        ]
        if offline:
            click.echo(
                f"waiting for leaderless partitions of {topic.name}: {', '.join(offline)} "
                "(see the broker's log for the cause)",
                err=True,
            )


def write_now(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
