"""`floodmark produce TOPIC [FILE]`: sends one record per line, or JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from floodmark.cli.console_properties import ConsoleReader
from floodmark.cli.format import unescape
from floodmark.cli.help import Command
from floodmark.cli.lines import read_pieces
from floodmark.cli.options import client_options, pairs
from floodmark.cli.record_json import Outgoing, record_from_json
from floodmark.cli.sending import LineParser, send_all
from floodmark.cli.session import run_client
from floodmark.cli.target import Target
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import COMPRESSION_TYPES, ProducerSettings


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The command's options, under their own names."""

    topic_argument: str | None
    topic_option: str | None
    file: str
    key_separator: str | None
    key: str | None
    headers: tuple[str, ...]
    partition: int | None
    compression: str | None
    acks: str | None
    as_json: bool
    delimiter: str
    null_marker: str | None
    reader_properties: tuple[str, ...]
    max_messages: int | None
    properties: tuple[str, ...]
    target: Target

    def topic_and_file(self) -> tuple[str, str]:
        """With --topic, the only argument is the optional file."""
        argument, file = self.topic_argument, self.file
        if self.topic_option is not None:
            return self.topic_option, argument if argument is not None and file == "-" else file
        if argument is None:
            raise click.UsageError("name a topic")
        return argument, file

    def settings(self) -> tuple[str, ProducerSettings]:
        given = pairs(self.properties)
        if self.compression is not None:
            given["compression.type"] = self.compression
        if self.acks is not None:
            given["acks"] = self.acks
        return self.target.resolve(ProducerSettings, given)

    def parser(self) -> Callable[[bytes], Outgoing]:
        if self.reader_properties:
            if self.as_json or self._has_line_options():
                raise click.UsageError(
                    "--property defines how to read lines: drop --json, --key, "
                    "--key-separator, --header and --null-marker"
                )
            return ConsoleReader.from_properties(self.reader_properties)
        if self.as_json:
            if self._has_line_options():
                raise click.UsageError(
                    "--json lines define the whole record: drop --key, "
                    "--key-separator, --header and --null-marker"
                )
            return record_from_json
        return LineParser(
            key_separator=None if self.key_separator is None else unescape(self.key_separator),
            key=None if self.key is None else os.fsencode(self.key),
            headers=[(name, os.fsencode(value)) for name, value in pairs(self.headers).items()],
            null_marker=None if self.null_marker is None else os.fsencode(self.null_marker),
        )

    def _has_line_options(self) -> bool:
        given = (self.key, self.key_separator, self.null_marker)
        return bool(self.headers) or any(text is not None for text in given)


@click.command(
    cls=Command,
    examples=[
        "echo hello | floodmark produce greetings",
        "printf 'ann:2 apples\\n' | floodmark produce orders -K :",
        "floodmark produce orders lines.txt -z zstd -H source=shop",
        """echo '{"key": "ann", "value": "2 apples"}' | floodmark produce orders --json""",
    ],
)
@click.argument("topic_argument", metavar="TOPIC", required=False)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--topic", "topic_option", help="Topic name.")
@click.option(
    "--key-separator",
    "-K",
    help="Split lines into key and value; \\t is a tab. A line without it has no key.",
)
@click.option("--key", "-k", help="Key for every record.")
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header for every record.",
)
@click.option("--partition", "-p", type=int, help="Send to this partition only.")
@click.option(
    "--compression-codec",
    "--compression-type",
    "-z",
    "compression",
    type=click.Choice(list(COMPRESSION_TYPES)),
    help="Compression type.  [none]",
)
@click.option("--acks", "--request-required-acks", help="0, 1 or all.  [all]")
@click.option("--json", "as_json", is_flag=True, help="Read JSON lines from `consume -o json`.")
@click.option("--delimiter", "-D", default="\\n", help="Delimiter between records.  [newline]")
@click.option("--null-marker", help="Read this exact key or value as null.")
@click.option(
    "--property",
    "--reader-property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Kafka console producer property, such as parse.key=true or key.separator=:.",
)
@click.option("--max-messages", "-n", type=click.IntRange(1), help="Stop after N records.")
@click.option(
    "--producer-property",
    "--command-property",
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Producer setting, such as linger.ms=20.",
)
@client_options
def produce(**given: Any) -> None:
    """Send records from stdin or a file, one per line."""
    options = ProduceOptions(**given)
    topic, file = options.topic_and_file()
    parse = options.parser()
    address, settings = options.settings()
    cut_at = unescape(options.delimiter)

    async def work() -> int:
        descriptor = sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY)
        try:
            async with Producer(address, settings) as producer:
                if file == "-" and sys.stdin.isatty():
                    click.echo("type records, one per line; press Ctrl-D to finish", err=True)
                return await send_all(
                    producer,
                    topic,
                    read_pieces(descriptor, cut_at),
                    parse,
                    partition=options.partition,
                    limit=options.max_messages,
                )
        finally:
            if file != "-":
                os.close(descriptor)

    sent = run_client(work())
    if sys.stderr.isatty():
        click.echo(f"{sent:,} {'record' if sent == 1 else 'records'} sent to {topic}", err=True)
