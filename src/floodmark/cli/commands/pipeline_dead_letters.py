"""`floodmark pipeline dead-letters show|redrive`: records that a pipeline could not parse."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import FiniteRange, client_options, output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.record_json import shown_name, to_json
from floodmark.cli.session import admin_client, existing_topics, run_client
from floodmark.cli.target import Target
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.pipeline.authoring.dead_letters import (
    DeadLetter,
    Filter,
    Redrive,
    Redriven,
    read_letters,
    redrive_group,
    redrive_range,
)
from floodmark.pipeline.errors import PipelineError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_SHOWN_CHARACTERS = 40


@click.group(
    "dead-letters",
    cls=Group,
    examples=[
        "floodmark pipeline dead-letters show orders-dead",
        "floodmark pipeline dead-letters redrive orders-dead --column amount --dry-run",
    ],
)
def dead_letters() -> None:
    """Show the records that a pipeline could not parse, and send them back."""


def _filter_options(function: F) -> F:
    """Which dead letters: the command gets `wanted`."""

    @click.option("--source", help="Only those of this source of the pipeline.")
    @click.option("--column", help="Only those with a problem in this column.")
    @click.option("--reason", help="Only those whose reason contains this text.")
    @click.option("--key", help="Only those with this key.")
    @click.option("--origin", metavar="TOPIC", help="Only those that came from this topic.")
    @wraps(function)
    def command(
        *,
        source: str | None,
        column: str | None,
        reason: str | None,
        key: str | None,
        origin: str | None,
        **rest: Any,
    ) -> Any:
        return function(wanted=Filter(source, column, reason, key, origin), **rest)

    return cast(F, command)


@dead_letters.command(
    examples=[
        "floodmark pipeline dead-letters show orders-dead",
        "floodmark pipeline dead-letters show orders-dead --column amount --max 10 -o json",
    ]
)
@click.argument("topic")
@_filter_options
@click.option("--max", "most", type=click.IntRange(min=1), help="Show at most N, the first ones.")
@output_option
@client_options
def show(topic: str, wanted: Filter, most: int | None, output: str, target: Target) -> None:
    """Show dead letters: where each came from, why it failed, its key and value."""
    letters = run_client(_told(_find(topic, wanted, most, target)))
    if output == JSON:
        print_json([_document(letter) for letter in letters])
        return
    if not letters:
        click.echo(f"{topic} has no matching dead letters", err=True)
        return
    print_table(
        ["OFFSET", "FROM", "SOURCE", "COLUMN", "REASON", "KEY", "VALUE"],
        [
            [
                f"{letter.partition.partition}:{letter.offset}",
                f"{letter.origin}:{letter.origin_offset}",
                letter.source,
                letter.column,
                letter.error.partition(": ")[2] or letter.error,
                _shown(letter.key),
                _shown(letter.value),
            ]
            for letter in letters
        ],
    )


@dead_letters.command(
    examples=[
        "floodmark pipeline dead-letters redrive orders-dead --dry-run",
        "floodmark pipeline dead-letters redrive orders-dead --column amount --rate 100",
    ]
)
@click.argument("topic")
@_filter_options
@click.option("--to", metavar="TOPIC", help="Send to this topic instead of the original ones.")
@click.option(
    "--rate", type=FiniteRange(min=0, min_open=True), help="Send at most N records a second."
)
@click.option("--max", "most", type=click.IntRange(min=1), help="Send at most N records.")
@click.option(
    "--from-beginning", is_flag=True, help="Start over, not after the end of the last redrive."
)
@click.option("--dry-run", is_flag=True, help="Count what would be sent. Send nothing.")
@client_options
def redrive(
    topic: str,
    wanted: Filter,
    to: str | None,
    rate: float | None,
    most: int | None,
    from_beginning: bool,
    dry_run: bool,
    target: Target,
) -> None:
    """Send dead letters back to the topics they came from, each once.

    A record gets its original key, value, headers, timestamp and partition. The next redrive
    continues after this one; records that did not match are passed over, and stay in the topic.
    """

    async def work() -> Redriven:
        await _check_topics(target, [topic] if to is None else [topic, to])
        address, settings = target.resolve(ConsumerSettings)
        async with Consumer(address, replace(settings, isolation_level="read_committed")) as reader:
            if dry_run:
                return await Redrive(reader, None, wanted, to=to, most=most).run(
                    topic, from_beginning=from_beginning
                )
            _, producing = target.resolve(ProducerSettings)
            producing = replace(producing, transactional_id=redrive_group(topic))
            async with Producer(address, producing) as producer:
                await producer.init_transactions()
                work = Redrive(reader, producer, wanted, to=to, per_second=rate, most=most)
                return await work.run(topic, from_beginning=from_beginning)

    outcome = run_client(_told(work()))
    verb = "would be sent" if dry_run else "sent"
    for name, count in sorted(outcome.sent.items()):
        click.echo(f"{count} {_records(count)} {verb} to {name}")
    if not outcome.sent:
        click.echo(f"no matching dead letters in {topic} since the last redrive", err=True)
    if outcome.others:
        click.echo(
            f"{outcome.others} {_records(outcome.others)} did not match: --from-beginning with "
            "another filter finds them again",
            err=True,
        )


async def _find(topic: str, wanted: Filter, most: int | None, target: Target) -> list[DeadLetter]:
    await _check_topics(target, [topic])
    address, settings = target.resolve(ConsumerSettings)
    letters: list[DeadLetter] = []
    async with Consumer(address, replace(settings, isolation_level="read_committed")) as consumer:
        starts, ends = await redrive_range(consumer, topic, from_beginning=True)
        async for found in read_letters(consumer, starts, ends):
            some = [DeadLetter.of(partition, record) for partition, record in found]
            letters += [letter for letter in some if wanted.matches(letter)]
            if most is not None and len(letters) >= most:
                break
    return letters[:most]


async def _check_topics(target: Target, topics: list[str]) -> None:
    async with admin_client(target) as admin:
        await existing_topics(admin, topics)


async def _told(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except PipelineError as error:
        raise CliError(str(error)) from error


def _document(letter: DeadLetter) -> dict[str, Any]:
    return {
        "topic": letter.partition.topic,
        "partition": letter.partition.partition,
        "offset": letter.offset,
        "error": letter.error,
        "column": letter.column,
        "source": letter.source,
        "origin": {
            "topic": letter.origin.topic,
            "partition": letter.origin.partition,
            "offset": letter.origin_offset,
            "timestamp": letter.timestamp_ms,
        },
        "key": to_json(letter.key),
        "value": to_json(letter.value),
        "headers": [[shown_name(name), to_json(value)] for name, value in letter.headers],
    }


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data.decode(errors="replace").replace("\n", " ")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _records(count: int) -> str:
    return "record" if count == 1 else "records"
