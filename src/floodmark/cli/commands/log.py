"""`floodmark log ...`: inspect a partition's files, whether Floodmark or Kafka wrote them."""

from __future__ import annotations

from pathlib import Path

import click

from floodmark.cli.commands.log_dump import DUMPED_NAMES, dump_file
from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, Document, output_columns, print_json, print_table


@click.group(cls=Group, examples=["floodmark log dump floodmark-data/orders-0"])
def log() -> None:
    """Inspect a partition's files."""


@log.command(
    examples=[
        "floodmark log dump floodmark-data/orders-0",
        "floodmark log dump --deep floodmark-data/orders-0/00000000000000000000.log",
    ]
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option(
    "--files", "files_option", multiple=True, metavar="A,B", help="Files, as in Kafka's tool."
)
@click.option(
    "--deep",
    "--deep-iteration",
    "--print-data-log",
    "deep",
    is_flag=True,
    help="Print records too.",
)
@click.option("--skip-crc", is_flag=True, help="Do not verify batch checksums.")
@output_option
def dump(
    paths: tuple[str, ...],
    files_option: tuple[str, ...],
    deep: bool,
    skip_crc: bool,
    output: str,
) -> None:
    """Print segments, indexes, snapshots and checkpoints, or all files in a folder.

    --deep also prints the records of each batch. It only reads the files, so it is safe to run next
    to a live broker. The exit code is 1 if a file is corrupt.
    """
    found = _files([*paths, *(name for text in files_option for name in text.split(","))])
    documents = []
    broken = []
    for path in found:
        document = dump_file(path, deep=deep, check_crc=not skip_crc)
        if document["error"]:
            broken.append(document["file"])
        if output == JSON:
            documents.append(document)
        else:
            # Print and drop each document: a folder may hold many gigabytes.
            _print(document)
    if output == JSON:
        print_json(documents)
    if broken:
        raise CliError(f"{len(broken)} of {len(found)} files are corrupt", why=", ".join(broken))


def _files(names: list[str]) -> list[Path]:
    if not names:
        raise click.UsageError("name a segment file or a partition folder")
    found: list[Path] = []
    for path in map(Path, names):
        if path.is_dir():
            found += sorted(item for item in path.iterdir() if item.name.endswith(DUMPED_NAMES))
        else:
            found.append(path)
    if not found:
        raise CliError(
            "there is nothing to dump",
            why="the folder holds no partition files",
            hint="name a folder such as DATA/TOPIC-0",
        )
    return found


def _print(document: Document) -> None:
    click.echo(f"{document['file']}  {document['kind']}  {document['size_bytes']} bytes")
    entries = document["entries"]
    if entries and "records" in entries[0]:
        for entry in entries:
            records = entry.pop("records")
            print_table(*output_columns([entry]))
            for record in records:
                headers = " ".join(f"{name}={value}" for name, value in record["headers"])
                click.echo(
                    f"    | {record['offset']}  {record['timestamp']}  key {record['key']}  "
                    f"value {record['value']}  {headers}".rstrip()
                )
    elif entries:
        print_table(*output_columns(entries))
    if document["error"]:
        click.echo(f"  broken: {document['error']}")
    click.echo()
