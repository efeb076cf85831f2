"""`floodmark cat`: kcat's options, for people and scripts used to them.

-P produces, -C consumes, -G consumes in a group, -L lists the cluster, -Q looks up offsets by time.
Shares its implementation with `produce` and `consume`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from floodmark.cli.commands.consume import check_topics, write_now
from floodmark.cli.errors import CliError
from floodmark.cli.format import Formatter, compile_format, unescape
from floodmark.cli.help import Command
from floodmark.cli.lines import read_pieces, read_whole
from floodmark.cli.options import FiniteRange, kcat_client_options, pairs
from floodmark.cli.output import Document, print_json
from floodmark.cli.reading import ReadPlan, print_records
from floodmark.cli.record_json import record_to_kcat_json
from floodmark.cli.sending import LineParser, send_all
from floodmark.cli.session import check_partitions, existing_topics, run_client
from floodmark.cli.start_at import parse_offset
from floodmark.cli.target import Target
from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import (
    COMPRESSION_TYPES,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
)

_NULL_TEXT = b"NULL"
MAX_TIMEOUT_S = 2_000_000
"""About what fits into Kafka's 32 bits of milliseconds."""


@dataclass(frozen=True, slots=True)
class CatOptions:
    topics: tuple[str, ...]
    partition: int | None
    properties: dict[str, str]
    target: Target
    count: int | None
    exit_at_end: bool
    quiet: bool
    null: bool
    key_delimiter: bytes | None
    delimiter: bytes
    offset: str
    format_text: str | None
    as_json: bool
    arguments: tuple[str, ...]
    group: str | None

    def topic(self) -> str:
        if not self.topics:
            raise click.UsageError("name a topic with -t")
        return self.topics[0]


@click.command(
    cls=Command,
    examples=[
        "floodmark cat -L",
        "echo hello | floodmark cat -P -t greetings",
        "floodmark cat -C -t greetings -o beginning -e",
        "floodmark cat -C -t orders -c 5 -f '%t [%p] %o: %k %s\\n'",
        "floodmark cat -G billing orders",
        "floodmark cat -Q -t orders:0:1767225600000",
    ],
)
@click.option("-P", "mode", flag_value="P", help="Produce.")
@click.option("-C", "mode", flag_value="C", help="Consume.")
@click.option("-G", "group", help="Consume the named topics as a member of this group.")
@click.option("-L", "mode", flag_value="L", help="List brokers, topics and partitions.")
@click.option(
    "-Q", "mode", flag_value="Q", help="Look up offsets by time: -t topic:partition:timestamp."
)
@click.option("-t", "topics", multiple=True, help="Topic.")
@click.option("-p", "partition", type=int, help="Partition; -1 for any.")
@click.option("-o", "offset", default="beginning", help="beginning, end, N, -N, s@TIMESTAMP.")
@click.option("-c", "count", type=int, help="Stop after this many records.")
@click.option("-e", "exit_at_end", is_flag=True, help="Stop at the end of the partition.")
@click.option("-k", "key", help="Key for every produced record.")
@click.option("-K", "key_delimiter", help="Delimiter between key and value.")
@click.option("-D", "delimiter", default="\\n", help="Delimiter between records.  [newline]")
@click.option("-H", "headers", multiple=True, metavar="NAME=VALUE", help="Header to add.")
@click.option("-f", "format_text", help="Output format, such as '%t [%p] %o: %k %s\\n'.")
@click.option("-J", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "-z", "compression", type=click.Choice(list(COMPRESSION_TYPES)), help="Compression type."
)
@click.option("-l", "by_line", is_flag=True, help="Produce each line of a file.")
@click.option("-Z", "null", is_flag=True, help="Produce empty as null, print null as NULL.")
@click.option("-T", "tee", is_flag=True, help="Copy produced records to stdout.")
@click.option("-X", "properties", multiple=True, metavar="NAME=VALUE", help="Client setting.")
@click.option(
    "-m",
    "metadata_timeout_s",
    type=FiniteRange(0, MAX_TIMEOUT_S),
    help="Seconds to wait for metadata.  [5]",
)
@click.option("-q", "quiet", is_flag=True, help="Print only records.")
@click.option("-u", "unbuffered", is_flag=True, help="Ignored: output is never buffered.")
@click.option(
    "-E", "keep_going", is_flag=True, help="Ignored: transient errors are always retried."
)
@click.option("-v", "verbose", count=True, help="Ignored.")
@click.argument("arguments", metavar="[FILE or TOPIC]...", nargs=-1)
@kcat_client_options
def cat(
    mode: str | None,
    key: str | None,
    headers: tuple[str, ...],
    compression: str | None,
    by_line: bool,
    tee: bool,
    properties: tuple[str, ...],
    metadata_timeout_s: float | None,
    key_delimiter: str | None,
    delimiter: str,
    partition: int | None,
    unbuffered: bool,
    keep_going: bool,
    verbose: int,
    **rest: Any,
) -> None:
    """Produce, consume, list and query with kcat's options."""
    given = pairs(properties)
    if compression is not None:
        given["compression.type"] = compression
    if metadata_timeout_s is not None:
        given["default.api.timeout.ms"] = str(int(metadata_timeout_s * 1000))
    options = CatOptions(
        key_delimiter=None if key_delimiter is None else unescape(key_delimiter),
        delimiter=unescape(delimiter),
        partition=None if partition == -1 else partition,
        properties=given,
        **rest,
    )
    if options.group is not None:
        run_client(_consume_in_group(options, options.group))
        return
    if mode is None:
        mode = "C" if sys.stdin.isatty() else "P"
    if mode == "P":
        parser = LineParser(
            key_separator=options.key_delimiter,
            key=None if key is None else os.fsencode(key),
            headers=[(name, os.fsencode(value)) for name, value in pairs(headers).items()],
            empty_is_null=options.null,
        )
        run_client(_produce(options, parser, by_line=by_line, tee=tee))
    elif mode == "C":
        run_client(_consume(options))
    elif mode == "L":
        run_client(_list(options))
    else:
        run_client(_query(options))


# --- producing ---


async def _produce(options: CatOptions, parser: LineParser, *, by_line: bool, tee: bool) -> None:
    address, settings = options.target.resolve(ProducerSettings, options.properties)
    pieces = _pieces(options, by_line=by_line)
    async with Producer(address, settings) as producer:
        await send_all(
            producer,
            options.topic(),
            _copied(pieces, options.delimiter) if tee else pieces,
            parser,
            partition=options.partition,
            limit=options.count,
        )


async def _pieces(options: CatOptions, *, by_line: bool) -> AsyncIterator[list[bytes]]:
    """Splits stdin by delimiter. Each named file is one record, or one per line with -l."""
    if not options.arguments:
        async for pieces in read_pieces(sys.stdin.fileno(), options.delimiter):
            # kcat skips empty records unless -Z turns them into nulls.
            yield [piece for piece in pieces if piece or options.null]
    for name in options.arguments:
        descriptor = _open(name)
        try:
            if not by_line:
                yield [await read_whole(descriptor)]
                continue
            async for pieces in read_pieces(descriptor, options.delimiter):
                yield [piece for piece in pieces if piece or options.null]
        finally:
            os.close(descriptor)


def _open(name: str) -> int:
    try:
        if Path(name).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return os.open(name, os.O_RDONLY)
    except OSError as error:
        raise CliError(
            f"{name} could not be read",
            why=error.strerror,
            hint="name a readable file, or none to read from stdin",
        ) from error


async def _copied(
    pieces: AsyncIterator[list[bytes]], delimiter: bytes
) -> AsyncIterator[list[bytes]]:
    async for portion in pieces:
        write_now(b"".join(piece + delimiter for piece in portion))
        yield portion


# --- consuming ---


async def _consume(options: CatOptions) -> None:
    address, settings = options.target.resolve(ConsumerSettings, options.properties)
    plan = ReadPlan(
        [options.topic(), *options.arguments],
        parse_offset("end" if options.offset == "stored" else options.offset),
        partitions=() if options.partition is None else (options.partition,),
        follow=not options.exit_at_end,
        max_records=options.count,
        quiet=options.quiet,
    )
    async with Consumer(address, settings) as consumer:
        await check_topics(consumer, plan)
        count = await print_records(consumer, plan, _formatter(options), write_now)
        # If -c stopped it, it may not have reached the end.
        if options.exit_at_end and count != options.count:
            for partition in consumer.assignment:
                offset = await consumer.position(partition)
                plan.tell(
                    f"% Reached end of topic {partition.topic} [{partition.partition}] "
                    f"at offset {offset}"
                )


async def _consume_in_group(options: CatOptions, group: str) -> None:
    topics = [*options.topics, *options.arguments]
    if not topics:
        raise click.UsageError("name the topics after the group")
    properties = {"auto.offset.reset": "earliest"} | options.properties | {"group.id": group}
    address, settings = options.target.resolve(ConsumerSettings, properties)
    plan = ReadPlan(topics, None, follow=not options.exit_at_end, max_records=options.count)
    async with Consumer(address, settings) as consumer:
        await check_topics(consumer, plan)
        await print_records(consumer, plan, _formatter(options), write_now)


def _formatter(options: CatOptions) -> Formatter:
    if options.as_json:
        return record_to_kcat_json
    null = _NULL_TEXT if options.null else b""
    if options.format_text is not None:
        return compile_format(options.format_text, null=null)
    value = compile_format("%s", null=null)
    key = compile_format("%k", null=null)
    separator, end = options.key_delimiter, options.delimiter
    if separator is None:
        return lambda partition, record: value(partition, record) + end
    return lambda partition, record: (
        key(partition, record) + separator + value(partition, record) + end
    )


# --- listing and querying ---


async def _list(options: CatOptions) -> None:
    address, settings = options.target.resolve(ClientSettings, options.properties)
    async with Admin(address, settings) as admin:
        if options.topics:
            await existing_topics(admin, options.topics)
        else:
            await admin.list_topics()
        view = admin.cluster.view
    shown = [view.topics[name] for name in sorted(options.topics or view.topics)]
    if options.as_json:
        print_json(_list_json(view, [topic.name for topic in shown], address))
        return
    asked = ", ".join(options.topics) or "all topics"
    click.echo(f"Metadata for {asked} (from broker {address}):")
    click.echo(f" {len(view.brokers)} brokers:")
    for node_id, broker in sorted(view.brokers.items()):
        controller = " (controller)" if node_id == view.controller_id else ""
        click.echo(f"  broker {node_id} at {broker.address}{controller}")
    click.echo(f" {len(shown)} topics:")
    for topic in shown:
        click.echo(f'  topic "{topic.name}" with {len(topic.partitions)} partitions:')
        for index, partition in sorted(topic.partitions.items()):
            replicas = ",".join(map(str, partition.replicas))
            in_sync = ",".join(map(str, partition.in_sync_replicas))
            click.echo(
                f"    partition {index}, leader {partition.leader}, "
                f"replicas: {replicas}, isrs: {in_sync}"
            )


def _list_json(view: ClusterView, names: list[str], asked: str) -> Document:
    return {
        "originating_broker": {"id": -1, "name": asked},
        "controllerid": view.controller_id,
        "brokers": [
            {"id": node_id, "name": str(broker.address)}
            for node_id, broker in sorted(view.brokers.items())
        ],
        "topics": [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": index,
                        "leader": partition.leader,
                        "replicas": [{"id": node_id} for node_id in partition.replicas],
                        "isrs": [{"id": node_id} for node_id in partition.in_sync_replicas],
                    }
                    for index, partition in sorted(view.topics[name].partitions.items())
                ],
            }
            for name in names
        ],
    }


async def _query(options: CatOptions) -> None:
    address, settings = options.target.resolve(ClientSettings, options.properties)
    wanted = dict(_parse_query(text) for text in options.topics)
    if not wanted:
        raise click.UsageError("name what to query: -t topic:partition:timestamp")
    async with Admin(address, settings) as admin:
        await check_partitions(admin, wanted)
        listed = await admin.list_offsets(wanted)
    found: dict[str, Document] = {}
    for partition in wanted:
        result = listed[partition]
        if isinstance(result, KafkaError):
            raise result
        if options.as_json:
            answer = {"offset": result.offset}
            found.setdefault(partition.topic, {})[str(partition.partition)] = answer
        else:
            click.echo(f"{partition.topic} [{partition.partition}] offset {result.offset}")
    if options.as_json:
        print_json(found)


def _parse_query(text: str) -> tuple[TopicPartition, int]:
    topic, _, rest = text.partition(":")
    index, _, timestamp = rest.partition(":")
    try:
        return TopicPartition(topic, int(index)), int(timestamp)
    except ValueError:
        raise click.UsageError(f"'{text}' is not topic:partition:timestamp") from None
