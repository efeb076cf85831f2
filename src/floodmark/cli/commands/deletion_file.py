"""Reads the JSON file format of kafka-delete-records:
`{"partitions": [{"topic": "t", "partition": 0, "offset": 3}], "version": 1}`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from floodmark.cli.errors import CliError
from floodmark.cli.output import Document
from floodmark.client.cluster.view import TopicPartition
from floodmark.config.suggestions import did_you_mean

_VERSION = 1
_OF_FILE = ("partitions", "version")
_OF_PARTITION = ("topic", "partition", "offset")
_SHAPE = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}], "version": 1}'


def read_deletions(path: Path) -> dict[TopicPartition, int]:
    """Maps each partition to the offset before which records are deleted; -1 deletes all."""
    try:
        return _deletions(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _unusable(path, f"it is not JSON: {error}") from error
    except ValueError as error:
        raise _unusable(path, str(error)) from error


def _unusable(path: Path, why: str) -> CliError:
    return CliError(f"{path} is not a valid deletion file", why=why, hint=f"write {_SHAPE}")


def _deletions(document: Any) -> dict[TopicPartition, int]:
    _check_fields(document, _OF_FILE, "the file")
    if document.get("version", _VERSION) != _VERSION:
        raise ValueError(f"its version is {document['version']}, expected {_VERSION}")
    rows = document.get("partitions")
    if not isinstance(rows, list) or not rows:
        raise ValueError("it lists no partitions")
    found: dict[TopicPartition, int] = {}
    for row in rows:
        _check_fields(row, _OF_PARTITION, "a partition")
        if not isinstance(row.get("topic"), str):
            raise ValueError(f"{json.dumps(row)} has no topic")
        partition = TopicPartition(row["topic"], _whole_number(row, "partition", 0))
        if partition in found:
            raise ValueError(f"it lists {partition} twice")
        found[partition] = _whole_number(row, "offset", -1)
    return found


def _check_fields(document: Any, known: tuple[str, ...], what: str) -> None:
    if not isinstance(document, dict):
        raise ValueError(f"{what} is not a JSON object")
    for name in document:
        if name not in known:
            raise ValueError(f"{what} has an unknown field {name}{did_you_mean(name, known)}")


def _whole_number(row: Document, name: str, lowest: int) -> int:
    number = row.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < lowest:
        raise ValueError(f"{json.dumps(row)} needs {name} as a number of at least {lowest}")
    return number
