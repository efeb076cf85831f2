"""`floodmark log ...`: look into the files of a partition, whoever wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from floodmark.cli.commands.log_dump import DUMPED_NAMES, dump_file
from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, output_columns, print_json, print_table


@click.group(cls=Group, examples=["floodmark log dump floodmark-data/orders-0"])
def log() -> None:
    """Look into the files of a partition."""


@log.command(
    examples=[
        "floodmark log dump floodmark-data/orders-0",
        "floodmark log dump --deep floodmark-data/orders-0/00000000000000000000.log",
    ]
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option("--files", "files_option", multiple=True, metavar="A,B", help="As Kafka's tool.")
@click.option(
    "--deep", "--deep-iteration", "--print-data-log", "deep", is_flag=True, help="Records too."
)
@click.option("--skip-crc", is_flag=True, help="Do not check the checksum of batches.")
@output_option
def dump(
    paths: tuple[str, ...],
    files_option: tuple[str, ...],
    deep: bool,
    skip_crc: bool,
    output: str,
) -> None:
    """Print segment files, indexes, snapshots and checkpoints; a folder means all that is in it.

    --deep also prints the records of each batch. The files are only read, so this works beside a
    running broker. Exit code 1 when something in them is broken.
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
            # At once, and forgotten: a folder may hold many gigabytes.
            _print(document)
    if output == JSON:
        print_json(documents)
    if broken:
        raise CliError(f"{len(broken)} of {len(found)} files are broken", why=", ".join(broken))


def _files(names: list[str]) -> list[Path]:
    if not names:
        raise click.UsageError("name a segment file or the folder of a partition")
    found: list[Path] = []
    for path in map(Path, names):
        if path.is_dir():
            found += sorted(item for item in path.iterdir() if item.name.endswith(DUMPED_NAMES))
        else:
            found.append(path)
    if not found:
        raise CliError(
            "there is nothing to dump",
            why="the folder has no files of a partition",
            hint="name a folder such as DATA/TOPIC-0",
        )
    return found


def _print(document: dict[str, Any]) -> None:
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
