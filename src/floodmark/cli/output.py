"""Prints aligned tables for people or one JSON document for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import click

JSON = "json"
TABLE = "table"

Document: TypeAlias = dict[str, Any]
"""A JSON object."""


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Sizes columns to their widest cell and right-aligns numbers."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [
        max(len(column), *(len(row[i]) for row in cells)) if cells else len(column)
        for i, column in enumerate(columns)
    ]
    right = [
        bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(columns))
    ]
    for line in [list(columns), *cells]:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def output_columns(
    entries: Sequence[Document],
) -> tuple[list[str], list[list[object]]]:
    """Builds a table from documents that share the same keys."""
    names = list(entries[0])
    return [name.upper() for name in names], [list(entry.values()) for entry in entries]


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, (list, tuple)):
        return ",".join(str(item) for item in cell) or "-"
    return str(cell)
