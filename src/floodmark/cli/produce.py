"""`floodmark produce TOPIC [FILE]`: a record per line, or JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from floodmark.cli.console_properties import ConsoleReader
from floodmark.cli.format import unescape
from floodmark.cli.lines import read_pieces
from floodmark.cli.options import client_options, pairs
from floodmark.cli.record_json import Outgoing, record_from_json
from floodmark.cli.sending import LineParser, send_all
from floodmark.cli.session import client_settings, run_client
from floodmark.client.producer import Producer
from floodmark.client.settings import COMPRESSION_TYPES, ProducerSettings


@click.command()
@click.argument("topic_argument", metavar="TOPIC", required=False)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--topic", "topic_option", help="Topic name.")
@click.option("--key-separator", "-K", help="Cuts each line into key and value; \\t is a tab.")
@click.option("--key", "-k", help="The key of every record.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE")
@click.option("--partition", "-p", type=int, help="Send to this partition only.")
@click.option(
    "--compression-codec",
    "--compression-type",
    "-z",
    "compression",
    type=click.Choice(list(COMPRESSION_TYPES)),
    help="How batches are packed.  [none]",
)
@click.option("--acks", "--request-required-acks", help="0, 1 or all.  [all]")
@click.option("--json", "as_json", is_flag=True, help="Lines as `consume -o json` prints them.")
@click.option("--delimiter", "-D", default="\\n", help="What separates records.  [newline]")
@click.option("--null-marker", help="A key or value of exactly this text is null.")
@click.option(
    "--property",
    "--reader-property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="As of Kafka's console producer: parse.key=true, key.separator=: and the like.",
)
@click.option("--max-messages", "-n", type=int, help="Stop after so many.")
@click.option(
    "--producer-property",
    "--command-property",
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A producer setting such as linger.ms=20.",
)
@client_options
def produce(
    topic_argument: str | None,
    file: str,
    topic_option: str | None,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str | None,
    acks: str | None,
    as_json: bool,
    delimiter: str,
    null_marker: str | None,
    reader_properties: tuple[str, ...],
    max_messages: int | None,
    properties: tuple[str, ...],
    bootstrap_server: str,
    command_config: str | None,
) -> None:
    """Send records from stdin or a file, one per line."""
    topic, file = _topic_and_file(topic_argument, topic_option, file)
    overrides = pairs(properties)
    if compression is not None:
        overrides["compression.type"] = compression
    if acks is not None:
        overrides["acks"] = acks
    settings = client_settings(ProducerSettings, command_config, overrides)
    cut_at = unescape(delimiter)
    parse: Callable[[bytes], Outgoing] = record_from_json
    if reader_properties:
        if as_json or key or key_separator or headers or null_marker:
            raise click.UsageError(
                "--property says itself how lines are read: leave out --json, --key, "
                "--key-separator, --header and --null-marker"
            )
        parse = ConsoleReader.from_properties(reader_properties)
    elif not as_json:
        parse = LineParser(
            key_separator=None if key_separator is None else unescape(key_separator),
            key=None if key is None else key.encode(),
            headers=[(name, value.encode()) for name, value in pairs(headers).items()],
            null_marker=None if null_marker is None else null_marker.encode(),
        )

    async def work() -> int:
        descriptor = sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY)
        try:
            async with Producer(bootstrap_server, settings) as producer:
                if file == "-" and sys.stdin.isatty():
                    click.echo("type records, one per line; Ctrl-D ends", err=True)
                pieces = read_pieces(descriptor, cut_at)
                return await send_all(
                    producer, topic, pieces, parse, partition=partition, limit=max_messages
                )
        finally:
            if file != "-":
                os.close(descriptor)

    sent = run_client(work())
    if sys.stderr.isatty():
        click.echo(f"{sent:,} records sent to {topic}", err=True)


def _topic_and_file(argument: str | None, option: str | None, file: str) -> tuple[str, str]:
    """With --topic the only argument, if any, is the file."""
    if option is not None:
        return option, argument if argument is not None and file == "-" else file
    if argument is None:
        raise click.UsageError("name a topic")
    return argument, file
