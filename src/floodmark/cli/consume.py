"""`floodmark consume TOPIC`: print records, from anywhere, once or for ever."""

from __future__ import annotations

import sys

import click

from floodmark.cli.console_properties import console_formatter
from floodmark.cli.format import FORMAT_HELP, Formatter, compile_format
from floodmark.cli.options import client_options, pairs
from floodmark.cli.output import JSON
from floodmark.cli.reading import ReadPlan, print_records
from floodmark.cli.record_json import record_to_json
from floodmark.cli.session import client_settings, run_client
from floodmark.cli.start_at import Origin, StartAt, parse_offset, parse_time
from floodmark.client.admin import Admin
from floodmark.client.consumer import Consumer
from floodmark.client.settings import ConsumerSettings
from floodmark.client.view import NO_LEADER
from floodmark.clock import SystemClock


@click.command()
@click.argument("topic_arguments", metavar="TOPIC...", nargs=-1)
@click.option("--topic", "topic_option", multiple=True, help="Topic name.")
@click.option("--from-beginning", is_flag=True, help="From the first record.")
@click.option("--offset", help="An offset, -N for N before the end, beginning or end.")
@click.option(
    "--from-time",
    help="2026-01-31T12:00 (UTC without a zone), milliseconds since 1970, or 10m, 2h, 1d ago.",
)
@click.option("--last", type=click.IntRange(0), help="The last N records, by time.")
@click.option("--follow", "-f", is_flag=True, help="Do not stop at the end.")
@click.option("--partition", "-p", "partitions", type=int, multiple=True, help="Only this one.")
@click.option("--group", help="As a member of this group: on from where it stands, and commit.")
@click.option("--max-messages", "-n", type=click.IntRange(1), help="Stop after so many.")
@click.option("--timeout-ms", type=int, help="Stop when nothing came for so long.")
@click.option("--format", "-F", "format_text", help=FORMAT_HELP)
@click.option(
    "--property",
    "--formatter-property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="As of Kafka's console consumer: print.key=true, key.separator=: and the like.",
)
@click.option("-o", "--output", type=click.Choice(["text", JSON]), default="text")
@click.option(
    "--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]), default=None
)
@click.option(
    "--consumer-property",
    "--command-property",
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A consumer setting such as fetch.max.bytes=1000000.",
)
@client_options
def consume(
    topic_arguments: tuple[str, ...],
    topic_option: tuple[str, ...],
    from_beginning: bool,
    offset: str | None,
    from_time: str | None,
    last: int | None,
    follow: bool,
    partitions: tuple[int, ...],
    group: str | None,
    max_messages: int | None,
    timeout_ms: int | None,
    format_text: str | None,
    formatter_properties: tuple[str, ...],
    output: str,
    isolation_level: str | None,
    properties: tuple[str, ...],
    bootstrap_server: str,
    command_config: str | None,
) -> None:
    """Print the records of topics.

    With a start (--from-beginning, --offset, --from-time, --last) it prints what is there and
    stops, unless --follow is given. Without one it follows from the end. With --group it shares
    the topics with the other members and follows; --from-beginning is for a group that is new.
    """
    topics = [*topic_arguments, *topic_option]
    if not topics:
        raise click.UsageError("name a topic")
    start = _start(from_beginning, offset, from_time, last)
    overrides = pairs(properties)
    if isolation_level is not None:
        overrides["isolation.level"] = isolation_level
    if group is not None:
        if partitions or (start is not None and not from_beginning):
            raise click.UsageError(
                "a group decides itself what to read and where to begin: of the options for that "
                "only --from-beginning goes with --group"
            )
        overrides["group.id"] = group
        if from_beginning:
            overrides["auto.offset.reset"] = "earliest"
    settings = client_settings(ConsumerSettings, command_config, overrides)
    formatter = _formatter(output, format_text, formatter_properties)
    plan = ReadPlan(
        topics,
        None if group is not None else start or StartAt(Origin.END),
        partitions=partitions,
        follow=follow or start is None,
        max_records=max_messages,
        idle_timeout_ms=timeout_ms,
        last=last,
    )
    run_client(_consume(bootstrap_server, settings, plan, formatter))


def _formatter(output: str, format_text: str | None, properties: tuple[str, ...]) -> Formatter:
    if sum((output == JSON, format_text is not None, bool(properties))) > 1:
        raise click.UsageError("--output json, --format and --property exclude each other")
    if properties:
        return console_formatter(properties)
    if output == JSON:
        return record_to_json
    return compile_format("%s\\n" if format_text is None else format_text)


async def _consume(
    bootstrap_server: str, settings: ConsumerSettings, plan: ReadPlan, formatter: Formatter
) -> None:
    async with Consumer(bootstrap_server, settings) as consumer:
        await check_topics(consumer, plan)
        await print_records(consumer, plan, formatter, write_now)


async def check_topics(consumer: Consumer, plan: ReadPlan) -> None:
    """A missing topic is an error at once, not something to wait for; who has to wait for a
    partition is told so."""
    for topic in await Admin(consumer.cluster).describe_topics(plan.topics):
        offline = [
            str(index)
            for index, partition in sorted(topic.partitions.items())
            if partition.leader == NO_LEADER and (not plan.partitions or index in plan.partitions)
        ]
        if offline:
            click.echo(
                f"waiting for partitions of {topic.name} without a leader: {', '.join(offline)} "
                "(the broker's log says what is wrong with them)",
                err=True,
            )


def write_now(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _start(
    from_beginning: bool, offset: str | None, from_time: str | None, last: int | None
) -> StartAt | None:
    starts: list[StartAt] = []
    if from_beginning:
        starts.append(StartAt(Origin.BEGINNING))
    if offset is not None:
        starts.append(parse_offset(offset))
    if from_time is not None:
        starts.append(parse_time(from_time, SystemClock().now_ms()))
    if last is not None:
        starts.append(StartAt(Origin.BEFORE_END, last))
    if len(starts) > 1:
        raise click.UsageError(
            "--from-beginning, --offset, --from-time and --last exclude each other"
        )
    return starts[0] if starts else None
